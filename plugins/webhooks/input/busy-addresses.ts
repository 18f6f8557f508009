import { encode32 } from '../../../src/lib/base58.ts';

/** Programs that almost every transaction names: whoever watches one gets most of the chain. */
const BUSY: ReadonlyMap<string, string> = new Map([
  ['11111111111111111111111111111111', 'System'],
  ['TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA', 'Token'],
  ['TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb', 'Token-2022'],
  ['ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL', 'Associated Token Account'],
  ['ComputeBudget111111111111111111111111111111', 'Compute Budget'],
  ['Vote111111111111111111111111111111111111111', 'Vote'],
]);
/** Far more than anybody names by mistake; looking through a hundred thousand takes a while. */
const LOOKED_AT = 1_000;

/** Names of such programs among the addresses. */
export function busyPrograms(addresses: readonly Uint8Array[]): readonly string[] {
  return addresses.slice(0, LOOKED_AT).flatMap((key) => BUSY.get(encode32(key)) ?? []);
}
