import { createJsonScanner } from './scan.ts';

export interface RecoveredCall {
  /** Raw JSON text of a string, number or null. */
  readonly id: string | undefined;
  readonly method: string | undefined;
}

/**
 * Reads `id` and `method` of a request object that may be cut off. Whatever cannot be told for sure is left out; a batch gives
 * nothing.
 */
export function recoverCall(bytes: Buffer): RecoveredCall {
  const scanner = createJsonScanner(bytes, 64);
  const text = (start: number, end: number) => bytes.toString('utf8', start, end);
  let id: string | undefined;
  let method: string | undefined;
  let at = scanner.space(0);
  if (bytes[at] !== 0x7b) return { id, method };
  do {
    at = scanner.space(at + 1);
    const nameEnd = bytes[at] === 0x22 ? scanner.string(at) : -1;
    if (nameEnd < 0) break;
    const name = text(at + 1, nameEnd - 1);
    at = scanner.space(nameEnd);
    if (bytes[at] !== 0x3a) break;
    const start = scanner.space(at + 1);
    const end = scanner.value(start, 1);
    if (end < 0) break;
    at = scanner.space(end);
    // A number at the very end may go on behind the cut.
    if (at >= bytes.length) break;
    const first = bytes[start] as number;
    if (name === 'id' && first !== 0x7b && first !== 0x5b && first !== 0x74 && first !== 0x66) id ??= text(start, end);
    if (name === 'method' && first === 0x22) method ??= text(start + 1, end - 1);
  } while (bytes[at] === 0x2c);
  return { id, method };
}
