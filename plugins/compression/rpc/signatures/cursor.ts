import { encode } from '../../../../src/lib/base58.ts';
import { invalid } from '../errors.ts';
import { cursor } from '../fields.ts';

/** A place in a list of signatures, newest first. */
export interface SignaturePlace {
  readonly slot: number;
  /** 64 bytes. */
  readonly signature: Uint8Array;
}

/** Slot, little-endian, and signature. */
const CURSOR_BYTES = 72;
const SLOT_BYTES = 8;

export const signatureCursor = () => cursor(CURSOR_BYTES);

/** Errors: -32602 for a slot that no chain has. */
export function placeOf(bytes: Uint8Array): SignaturePlace {
  const slot = Buffer.from(bytes.buffer, bytes.byteOffset, SLOT_BYTES).readBigUInt64LE();
  if (slot > BigInt(Number.MAX_SAFE_INTEGER)) throw invalid('Invalid cursor');
  return { slot: Number(slot), signature: bytes.subarray(SLOT_BYTES) };
}

export function cursorOf({ slot, signature }: SignaturePlace): string {
  const bytes = Buffer.alloc(CURSOR_BYTES);
  bytes.writeBigUInt64LE(BigInt(slot));
  bytes.set(signature, SLOT_BYTES);
  return encode(bytes);
}
