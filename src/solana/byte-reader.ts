/** The bytes do not have the expected layout. Never leaves the decoder of a transaction. */
export class LayoutError extends Error {
  constructor(what: string, offset?: number) {
    super(offset === undefined ? what : `${what} at byte ${offset}`);
    this.name = 'LayoutError';
  }
}

/** Reads borsh: little-endian, no padding, lists preceded by their length. Returns views or values. */
export interface ByteReader {
  readonly offset: number;
  readonly left: number;
  u8(): number;
  u16(): number;
  u32(): number;
  u64(): bigint;
  bool(): boolean;
  /** A u64 count: throws above 2^53. */
  count(): number;
  bytes(length: number): Uint8Array;
  key(): Uint8Array;
  /** A u32 length, then bytes. */
  blob(): Uint8Array;
  option<T>(read: () => T): T | null;
  /** A list of `length` items; without `length` it is preceded by a u32 count. An item takes at least `leastBytes`. */
  list<T>(read: () => T, leastBytes: number, length?: number): T[];
}

/** Errors: LayoutError when the bytes are too short or a value is impossible. */
export function createByteReader(bytes: Uint8Array, from = 0): ByteReader {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = from;
  const take = (length: number): number => {
    if (length > bytes.length - at) throw new LayoutError(`${length} bytes wanted, ${bytes.length - at} left`, at);
    at += length;
    return at - length;
  };
  const reader: ByteReader = {
    get offset() {
      return at;
    },
    get left() {
      return bytes.length - at;
    },
    u8: () => view.getUint8(take(1)),
    u16: () => view.getUint16(take(2), true),
    u32: () => view.getUint32(take(4), true),
    u64: () => view.getBigUint64(take(8), true),
    bool() {
      const value = reader.u8();
      if (value > 1) throw new LayoutError(`${value} is no truth value`, at - 1);
      return value === 1;
    },
    count() {
      const value = reader.u64();
      if (value > BigInt(Number.MAX_SAFE_INTEGER)) throw new LayoutError(`${value} is no count`, at - 8);
      return Number(value);
    },
    bytes(length) {
      const start = take(length);
      return bytes.subarray(start, start + length);
    },
    key: () => reader.bytes(32),
    blob: () => reader.bytes(reader.u32()),
    option: (read) => (reader.bool() ? read() : null),
    list(read, leastBytes, length = reader.u32()) {
      if (length * leastBytes > bytes.length - at) throw new LayoutError(`a list of ${length} does not fit`, at);
      return Array.from({ length }, read);
    },
  };
  return reader;
}
