import { type ByteReader, createByteReader, LayoutError } from './byte-reader.ts';

/** The accounts of a transaction. It may be a draft: with zeros as signatures, or without any. */
export interface DraftMessage {
  /** Required signatures, read-only signed, read-only unsigned. */
  readonly header: readonly [number, number, number];
  /** Keys in the message itself, 32 bytes each. */
  readonly keys: readonly Uint8Array[];
  readonly lookups: readonly {
    readonly table: Uint8Array;
    readonly writable: Uint8Array;
    readonly readonly: Uint8Array;
  }[];
}

const VERSION_BIT = 0x80;
const SIGNATURE_BYTES = 64;
const KEY_BYTES = 32;

/**
 * Reads the wire bytes of a legacy, version 0 or version 1 transaction up to its last lookup and ignores the rest. Unlike
 * `peekWire` it accepts transactions that nodes reject. Throws LayoutError.
 */
export function readDraft(bytes: Uint8Array): DraftMessage {
  const reader = createByteReader(bytes);
  if (bytes[0] === (VERSION_BIT | 1)) return readVersion1(reader);
  if ((bytes[0] ?? 0) >= VERSION_BIT) throw new LayoutError('an unknown transaction format');
  reader.bytes(readLength(reader) * SIGNATURE_BYTES);
  const isVersioned = reader.left > 0 && bytes[reader.offset]! >= VERSION_BIT;
  if (isVersioned && reader.u8() !== VERSION_BIT) throw new LayoutError('an unknown message version');
  const header = readHeader(reader);
  const keys = reader.list(() => reader.key(), KEY_BYTES, readLength(reader));
  reader.bytes(KEY_BYTES);
  const sized = () => reader.bytes(readLength(reader));
  reader.list(() => [reader.u8(), sized(), sized()], 3, readLength(reader));
  const lookups = isVersioned
    ? reader.list(() => ({ table: reader.key(), writable: sized(), readonly: sized() }), 34, readLength(reader))
    : [];
  return { header, keys, lookups };
}

/** Version, header, configuration mask, lifetime, two counts, addresses. */
function readVersion1(reader: ByteReader): DraftMessage {
  reader.u8();
  const header = readHeader(reader);
  reader.u32();
  reader.bytes(KEY_BYTES);
  reader.u8();
  const keys = reader.list(() => reader.key(), KEY_BYTES, reader.u8());
  return { header, keys, lookups: [] };
}

const readHeader = (reader: ByteReader) => [reader.u8(), reader.u8(), reader.u8()] as const;

/** A compact-u16. */
function readLength(reader: ByteReader): number {
  let length = 0;
  for (let shift = 0; shift <= 14; shift += 7) {
    const byte = reader.u8();
    length |= (byte & 0x7f) << shift;
    if (byte < 0x80) return length;
  }
  throw new LayoutError('a length of more than three bytes', reader.offset);
}
