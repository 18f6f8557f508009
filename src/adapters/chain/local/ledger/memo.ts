import type { MessageParts } from '../vm/transaction.ts';

const MEMO_PROGRAMS = new Set([
  'Memo1UhkJRfHyvLMcVucJwxXeuD728EqVDDwQDxFMNo',
  'MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr',
]);

/** `[bytes] text` of each memo instruction, joined the way signature lists show them; null without any. */
export function memoOf(message: MessageParts, keys: readonly string[]): string | null {
  const memos = message.instructions
    .filter((item) => MEMO_PROGRAMS.has(keys[item.programIdIndex] ?? ''))
    .map((item) => `[${item.data.length}] ${Buffer.from(item.data).toString('utf8')}`);
  return memos.length === 0 ? null : memos.join('; ');
}
