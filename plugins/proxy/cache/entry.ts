import { isAscii } from 'node:buffer';
import { isNull, type RpcReplyParts } from '../../../src/lib/rpc-reply.ts';

/** An answer as it was received; the id of the caller that asked first stands between `idStart` and `idEnd`. */
export interface CacheEntry {
  readonly bytes: Buffer;
  readonly idStart: number;
  readonly idEnd: number;
  /** What stands before and after the id, made when first asked for; null where text would not be the same bytes, or too long. */
  text?: { readonly head: string; readonly tail: string } | null;
}

/** Up to here text is cheaper to send than bytes: it leaves in one write with the header. */
export const TEXT_BYTES = 32_768;

/**
 * What can be kept of an answer: a result that is not null, with an id that can be exchanged. The bytes are copied, since a
 * received chunk is a window on a larger buffer that would stay alive with it.
 */
export function cacheEntry(bytes: Buffer, parts: RpcReplyParts): CacheEntry | null {
  if (parts.result === null || parts.id === null || isNull(bytes, parts.result)) return null;
  const copy = Buffer.allocUnsafeSlow(bytes.length);
  bytes.copy(copy);
  return { bytes: copy, idStart: parts.id.start, idEnd: parts.id.end };
}

/** The answer for another caller as it is cheapest to send. `idText` is raw JSON. */
export function bodyFor(entry: CacheEntry, idText: string): string | Buffer {
  if (entry.text === undefined) entry.text = textOf(entry);
  return entry.text === null ? answerFor(entry, idText) : entry.text.head + idText + entry.text.tail;
}

function textOf({ bytes, idStart, idEnd }: CacheEntry): { readonly head: string; readonly tail: string } | null {
  if (bytes.length > TEXT_BYTES || !isAscii(bytes)) return null;
  return { head: bytes.toString('latin1', 0, idStart), tail: bytes.toString('latin1', idEnd) };
}

/** The answer for another caller: the received bytes with that caller's id. `idText` is raw JSON. */
export function answerFor(entry: CacheEntry, idText: string): Buffer {
  return Buffer.concat([
    entry.bytes.subarray(0, entry.idStart),
    Buffer.from(idText),
    entry.bytes.subarray(entry.idEnd),
  ]);
}
