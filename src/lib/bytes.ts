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
  option<T>(read: (this: ByteReader) => T): T | null;
  /** A list of `length` items; without `length` it is preceded by a u32 count. An item takes at least `leastBytes`. */
  list<T>(read: (this: ByteReader) => T, leastBytes: number, length?: number): T[];
}

/** Errors: LayoutError when the bytes are too short or a value is impossible. */
export const createByteReader = (bytes: Uint8Array, from = 0): ByteReader => new Reader(bytes, from);

/** A class: accounts are decoded by the thousand, and a reader of closures costs more than what it reads. */
class Reader implements ByteReader {
  private readonly view: DataView;
  private readonly all: Uint8Array;
  private at: number;

  constructor(bytes: Uint8Array, from: number) {
    this.all = bytes;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.at = from;
  }

  get offset(): number {
    return this.at;
  }

  get left(): number {
    return this.all.length - this.at;
  }

  u8(): number {
    return this.view.getUint8(this.take(1));
  }

  u16(): number {
    return this.view.getUint16(this.take(2), true);
  }

  u32(): number {
    return this.view.getUint32(this.take(4), true);
  }

  u64(): bigint {
    return this.view.getBigUint64(this.take(8), true);
  }

  bool(): boolean {
    const value = this.u8();
    if (value > 1) throw new LayoutError(`${value} is no truth value`, this.at - 1);
    return value === 1;
  }

  count(): number {
    const value = this.u64();
    if (value > BigInt(Number.MAX_SAFE_INTEGER)) throw new LayoutError(`${value} is no count`, this.at - 8);
    return Number(value);
  }

  bytes(length: number): Uint8Array {
    const start = this.take(length);
    return this.all.subarray(start, start + length);
  }

  key(): Uint8Array {
    return this.bytes(32);
  }

  blob(): Uint8Array {
    return this.bytes(this.u32());
  }

  // What is read may be a method of this reader: `reader.option(reader.u8)`.
  option<T>(read: (this: ByteReader) => T): T | null {
    return this.bool() ? read.call(this) : null;
  }

  list<T>(read: (this: ByteReader) => T, leastBytes: number, length = this.u32()): T[] {
    if (length * leastBytes > this.left) throw new LayoutError(`a list of ${length} does not fit`, this.at);
    return Array.from({ length }, () => read.call(this));
  }

  private take(length: number): number {
    if (length > this.left) throw new LayoutError(`${length} bytes wanted, ${this.left} left`, this.at);
    this.at += length;
    return this.at - length;
  }
}

/** Whether two byte strings are equal. */
export function equalBytes(one: Uint8Array, other: Uint8Array): boolean {
  if (one.length !== other.length) return false;
  for (let i = 0; i < one.length; i += 1) if (one[i] !== other[i]) return false;
  return true;
}
