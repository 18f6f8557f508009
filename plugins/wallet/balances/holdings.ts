import { encode32 } from '../../../src/lib/base58.ts';
import { TOKEN_2022_PROGRAM, TOKEN_PROGRAM } from '../../../src/solana/address/known-programs.ts';
import type { ChainCall } from '../input/chain-call.ts';

export type TokenProgramName = 'spl-token' | 'token-2022';

/** All that a wallet holds of one mint. */
export interface Holding {
  /** Base58. */
  readonly mint: string;
  readonly program: TokenProgramName;
  /** Sum over its accounts, raw units. */
  readonly amount: bigint;
}

export interface Holdings {
  readonly lamports: bigint;
  /** One per mint, in no order. */
  readonly tokens: readonly Holding[];
}

interface TokenAccount {
  readonly account: { readonly data: readonly [base64: string, encoding: string] };
}

/** Mint, owner and amount; the rest of a token account does not matter here. */
const HEAD_BYTES = 72;
const AMOUNT_AT = 64;
const PROGRAMS: readonly (readonly [TokenProgramName, string])[] = [
  ['spl-token', TOKEN_PROGRAM],
  ['token-2022', TOKEN_2022_PROGRAM],
];

/** Reads the lamports and the token accounts of a wallet (base58), frozen ones too, and adds up those of one mint. */
export async function readHoldings(chain: ChainCall, wallet: string, commitment: string): Promise<Holdings> {
  const options = { encoding: 'base64', commitment, dataSlice: { offset: 0, length: HEAD_BYTES } };
  const [balance, ...accounts] = await Promise.all([
    chain.text('getBalance', [wallet, { commitment }]),
    ...PROGRAMS.map(([, programId]) =>
      chain.call<{ value: readonly TokenAccount[] }>('getTokenAccountsByOwner', [wallet, { programId }, options]),
    ),
  ]);
  const tokens = PROGRAMS.flatMap(([program], at) => sumByMint(program, accounts[at]?.value ?? []));
  return { lamports: readLamports(balance), tokens };
}

function sumByMint(program: TokenProgramName, accounts: readonly TokenAccount[]): readonly Holding[] {
  const amounts = new Map<string, bigint>();
  for (const { account } of accounts) {
    const head = Buffer.from(account.data[0], 'base64');
    if (head.length < HEAD_BYTES) continue;
    const mint = encode32(head);
    amounts.set(mint, (amounts.get(mint) ?? 0n) + head.readBigUInt64LE(AMOUNT_AT));
  }
  return Array.from(amounts, ([mint, amount]) => ({ mint, program, amount }));
}

/** There are more lamports than a number can count exactly. */
function readLamports(text: string): bigint {
  const value = /"value"\s*:\s*(\d+)/.exec(text)?.[1];
  if (value === undefined) throw new TypeError('the answer to getBalance holds no value');
  return BigInt(value);
}
