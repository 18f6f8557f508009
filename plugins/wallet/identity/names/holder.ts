import { decode32, encode32 } from '../../../../src/lib/base58.ts';
import { TOKEN_2022_PROGRAM, TOKEN_PROGRAM } from '../../../../src/solana/address/known-programs.ts';
import type { AccountReader } from './account-reader.ts';

interface Largest {
  readonly value: readonly { readonly address: string; readonly amount: string }[];
}

const TOKEN_ACCOUNT_BYTES = 165;

/** Who holds the only token of a mint, as 32 bytes; null when nobody does, or more than one token exists. */
export async function findHolder(reader: AccountReader, mint: Uint8Array): Promise<Uint8Array | null> {
  // Of a mint that does not exist the node has nothing but an error to tell.
  const [account] = await reader.accounts([mint]);
  if (account === undefined || account === null || !isTokenProgram(account.owner)) return null;
  const options = { commitment: 'confirmed' };
  const { value } = await reader.call<Largest>('getTokenLargestAccounts', [encode32(mint), options]);
  const holders = value.filter(({ amount }) => amount !== '0');
  const only = holders.length === 1 && holders[0]?.amount === '1' ? decode32(holders[0].address) : null;
  if (only === null) return null;
  const [holder] = await reader.accounts([only]);
  if (holder === undefined || holder === null || !isTokenProgram(holder.owner)) return null;
  const { data } = holder;
  // It may have been sold between the calls.
  const holds = data.length >= TOKEN_ACCOUNT_BYTES && amountOf(data) === 1n;
  return holds && Buffer.compare(data.subarray(0, 32), mint) === 0 ? data.subarray(32, 64) : null;
}

function amountOf(data: Uint8Array): bigint {
  return new DataView(data.buffer, data.byteOffset).getBigUint64(64, true);
}

function isTokenProgram(owner: string): boolean {
  return owner === TOKEN_PROGRAM || owner === TOKEN_2022_PROGRAM;
}
