import type { KeyTable, NormalTransaction } from '../ports/block.ts';

const PROGRAMS = new Set([
  'Memo1UhkJRfHyvLMcVucJwxXeuD728EqVDDwQDxFMNo',
  'MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr',
]);

/** `[bytes] text` of each memo instruction of the message, joined as nodes do; null without any. */
export function memoOf(tx: NormalTransaction, keys: KeyTable): string | null {
  const memos = tx.instructions
    .filter(({ programIndex }) => PROGRAMS.has(keys.base58(tx.keys[programIndex]!)))
    .map(({ data }) => `[${data.length}] ${textOf(data)}`);
  return memos.length === 0 ? null : memos.join('; ');
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

function textOf(data: Uint8Array): string {
  try {
    return utf8.decode(data);
  } catch {
    return '(unparseable)';
  }
}
