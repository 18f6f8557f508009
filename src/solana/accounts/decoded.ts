import { encode32 } from '../../lib/base58.ts';
import { type ByteReader, LayoutError } from '../../lib/bytes.ts';

/** An account as stored on the chain. */
export interface RawAccount {
  /** Owner program, base58. */
  readonly owner: string;
  readonly lamports: bigint;
  readonly data: Uint8Array;
}

/** The decoded content of an account, or the reason why it cannot be decoded. */
export type Decoded<T> =
  | { readonly value: T; readonly reason: null }
  /** `missing`: the account does not exist; `foreign`: another program or kind of account; `malformed`: damaged. */
  | { readonly value: null; readonly reason: UndecodedReason };

export type UndecodedReason = 'missing' | 'foreign' | 'malformed';

export const undecoded = (reason: UndecodedReason): Decoded<never> => ({ value: null, reason });

/** Runs a reader of bytes; a wrong layout is `malformed`, any other error is a bug and rethrown. */
export function tryDecode<T>(read: () => T): Decoded<T> {
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

/** A key; 32 zero bytes mean that it is absent. */
export function nullableKey(reader: ByteReader): string | null {
  const bytes = reader.key();
  return bytes.every((byte) => byte === 0) ? null : encode32(bytes);
}

/** A key preceded by a u32 presence flag; its bytes are always present. */
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

/** A u32 length and UTF-8; invalid UTF-8 is replaced, trailing zeros are padding. */
export function readText(reader: ByteReader): string {
  const bytes = reader.blob();
  let end = bytes.length;
  while (end > 0 && bytes[end - 1] === 0) end -= 1;
  return Buffer.from(bytes.buffer, bytes.byteOffset, end).toString('utf8');
}
