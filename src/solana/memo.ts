import type { KeyTable, NormalTransaction } from '../ports/block.ts';
import { memoLine } from './json-parsed/instruction.ts';
import { MEMO_PROGRAMS } from './programs.ts';

const PROGRAMS = new Set(MEMO_PROGRAMS);

/** `[bytes] text` of each memo instruction of the message, joined as nodes do; null without any. */
export function memoOf(tx: NormalTransaction, keys: KeyTable): string | null {
  const memos = tx.instructions
    .filter(({ programIndex }) => PROGRAMS.has(keys.base58(tx.keys[programIndex]!)))
    .map(({ data }) => memoLine(data));
  return memos.length === 0 ? null : memos.join('; ');
}
