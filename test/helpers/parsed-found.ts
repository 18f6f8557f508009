/** Made-up transactions of one instruction, for tests of parsed data. */
import { decode32, encode64 } from '../../src/lib/base58.ts';
import { decodeEntries } from '../../src/solana/decode/decode-block.ts';

export const PAYER = 'GokivDYuQXPZCWRkwMhdH2h91KpDQXBEmpgBgs55bnpH';

/** A transaction of `PAYER` that calls a program with these data; `seed` makes its signature. */
export function madeTransaction(slot: number, seed: number, program: string, data: readonly number[]) {
  const keys = [decode32(PAYER)!, decode32(program)!];
  const message = [1, 0, 1, keys.length, ...keys.flatMap((key) => [...key]), ...new Uint8Array(32)];
  const instruction = [1, 1, 1, 0, data.length, ...data];
  const signature = new Uint8Array(64).fill(seed);
  const wire = Buffer.from([1, ...signature, ...message, ...instruction]).toString('base64');
  const meta = { err: null, fee: 5_000, preBalances: [10_000, 1], postBalances: [5_000, 1], innerInstructions: [] };
  const entry = { transaction: [wire, 'base64'], meta, version: 'legacy' };
  const block = decodeEntries(slot, [entry], new Uint8Array(32));
  return { signature: encode64(signature), block, tx: block.transactions[0]!, keys: block.keys, entry };
}
