import { encode32 } from '../../lib/base58.ts';
import { type ByteReader, LayoutError } from '../byte-reader.ts';

/** An account as the chain keeps it. */
export interface RawAccount {
  /** The program that it belongs to, base58. */
  readonly owner: string;
  readonly lamports: bigint;
  readonly data: Uint8Array;
}

/** What an account holds, or why it does not hold what was looked for. */
export type Decoded<T> =
  | { readonly value: T; readonly reason: null }
  /** `missing`: there is nothing; `foreign`: another program's or another kind of account; `malformed`: damaged. */
  | { readonly value: null; readonly reason: UndecodedReason };

export type UndecodedReason = 'missing' | 'foreign' | 'malformed';

export const undecoded = (reason: UndecodedReason): Decoded<never> => ({ value: null, reason });

/** Runs a reader of bytes; a layout that does not fit is `malformed`, any other error a bug that goes on. */
export function attempt<T>(read: () => T): Decoded<T> {
  try {
    return { value: read(), reason: null };
  } catch (error) {
    if (error instanceof LayoutError) return undecoded('malformed');
    throw error;
  }
}

const KEY_BYTES = 32;

/** 32 bytes as base58. */
export const keyText = (reader: ByteReader): string => encode32(reader.key());

/** A key that 32 zero bytes mean to be absent. */
export function nullableKey(reader: ByteReader): string | null {
  const bytes = reader.key();
  return bytes.every((byte) => byte === 0) ? null : encode32(bytes);
}

/** A key behind a u32 that says whether it is there; its place is kept either way. */
export function optionalKey(reader: ByteReader): string | null {
  const tag = presence(reader);
  const key = reader.bytes(KEY_BYTES);
  return tag ? encode32(key) : null;
}

/** A u32 that is 0 or 1. */
export function presence(reader: ByteReader): boolean {
  const tag = reader.u32();
  if (tag > 1) throw new LayoutError(`${tag} is no option`, reader.offset - 4);
  return tag === 1;
}

/** A u32 length and UTF-8; what is no UTF-8 is replaced, zeros at the end are padding. */
export function text(reader: ByteReader): string {
  const bytes = reader.blob();
  let end = bytes.length;
  while (end > 0 && bytes[end - 1] === 0) end -= 1;
  return Buffer.from(bytes.buffer, bytes.byteOffset, end).toString('utf8');
}
