/**
 * The protobuf encoding, written by hand: messages are encoded straight from the decoded block, and no message object is made on the
 * way. Members with their default value are left out unless a method says otherwise, as proto3 does.
 */

const VARINT = 0;
const FIXED64 = 1;
const BYTES = 2;
const FIXED32 = 5;
const MAX_VARINT_BYTES = 10;
const FIRST_BYTES = 1 << 16;

export class ProtobufWriter {
  private bytes = Buffer.allocUnsafe(FIRST_BYTES);
  private at = 0;

  /** A copy of what was written; the writer starts again. */
  take(): Buffer {
    const taken = Buffer.from(this.bytes.subarray(0, this.at));
    this.at = 0;
    return taken;
  }

  uint(field: number, value: number | bigint): void {
    if (value === 0 || value === 0n) return;
    this.always(field, value);
  }

  /** Also writes zero: for `optional` members. Negative values take ten bytes. */
  always(field: number, value: number | bigint): void {
    this.reserve(2 * MAX_VARINT_BYTES);
    this.varint(field * 8 + VARINT);
    this.number(value);
  }

  bool(field: number, value: boolean): void {
    if (value) this.always(field, 1);
  }

  double(field: number, value: number): void {
    if (value === 0) return;
    this.reserve(MAX_VARINT_BYTES + 8);
    this.varint(field * 8 + FIXED64);
    this.at = this.bytes.writeDoubleLE(value, this.at);
  }

  /** Writes empty bytes too: whoever calls it knows whether the member is there. */
  raw(field: number, value: Uint8Array): void {
    this.reserve(2 * MAX_VARINT_BYTES + value.length);
    this.varint(field * 8 + BYTES);
    this.varint(value.length);
    this.bytes.set(value, this.at);
    this.at += value.length;
  }

  /** `from` to `to` of a larger array, without a view of it. */
  range(field: number, value: Uint8Array, from: number, to: number): void {
    this.reserve(2 * MAX_VARINT_BYTES + to - from);
    this.varint(field * 8 + BYTES);
    this.varint(to - from);
    const { bytes } = this;
    let at = this.at;
    for (let i = from; i < to; i++) bytes[at++] = value[i]!;
    this.at = at;
  }

  text(field: number, value: string): void {
    if (value !== '') this.element(field, value);
  }

  /** A text of a repeated member, which may be empty. */
  element(field: number, value: string): void {
    this.reserve(2 * MAX_VARINT_BYTES + value.length * 3);
    this.varint(field * 8 + BYTES);
    const start = this.at;
    this.at += lengthBytes(value.length);
    const size = this.bytes.write(value, this.at, 'utf8');
    this.at += size;
    this.writeLength(start, lengthBytes(value.length), size);
  }

  /** Packed, as proto3 does with repeated numbers. */
  packed(field: number, values: readonly (number | bigint)[]): void {
    if (values.length === 0) return;
    const start = this.begin(field);
    this.reserve(values.length * MAX_VARINT_BYTES);
    for (const value of values) this.number(value);
    this.end(start);
  }

  /** Starts a message inside the message; everything up to `end` is part of it. */
  begin(field: number): number {
    this.reserve(2 * MAX_VARINT_BYTES);
    this.varint(field * 8 + BYTES);
    return this.at++;
  }

  end(start: number): void {
    this.reserve(MAX_VARINT_BYTES);
    this.writeLength(start, 1, this.at - start - 1);
  }

  /** Writes the length of `size` bytes at `start`, where `room` bytes were left for it. */
  private writeLength(start: number, room: number, size: number): void {
    const needed = lengthBytes(size);
    if (needed !== room) {
      this.reserve(needed);
      this.bytes.copyWithin(start + needed, start + room, start + room + size);
    }
    this.at = start;
    this.varint(size);
    this.at += size;
  }

  /** A reader gives up the whole message over a varint of more than 64 bits. */
  private number(value: number | bigint): void {
    if (typeof value === 'number' && value >= 0 && value <= Number.MAX_SAFE_INTEGER) this.varint(Math.trunc(value));
    else this.bigVarint(unsignedOf(value));
  }

  private varint(value: number): void {
    let rest = value;
    while (rest > 0x7fffffff) {
      this.bytes[this.at++] = (rest % 128) | 0x80;
      rest = Math.floor(rest / 128);
    }
    while (rest > 0x7f) {
      this.bytes[this.at++] = (rest & 0x7f) | 0x80;
      rest >>>= 7;
    }
    this.bytes[this.at++] = rest;
  }

  private bigVarint(value: bigint): void {
    let rest = value;
    while (rest > 0x7fn) {
      this.bytes[this.at++] = Number(rest & 0x7fn) | 0x80;
      rest >>= 7n;
    }
    this.bytes[this.at++] = Number(rest);
  }

  private reserve(count: number): void {
    if (this.at + count <= this.bytes.length) return;
    const larger = Buffer.allocUnsafe(Math.max(this.bytes.length * 2, this.at + count));
    this.bytes.copy(larger, 0, 0, this.at);
    this.bytes = larger;
  }
}

const MAX_UINT64 = 2n ** 64n - 1n;

/** 64 bits: negative numbers in two's complement, fractions cut, what is too large as the largest. */
function unsignedOf(value: number | bigint): bigint {
  const whole = typeof value === 'bigint' ? value : BigInt(Number.isFinite(value) ? Math.trunc(value) : 0);
  return whole > MAX_UINT64 ? MAX_UINT64 : BigInt.asUintN(64, whole);
}

function lengthBytes(size: number): number {
  let bytes = 1;
  for (let rest = size; rest > 0x7f; rest = Math.floor(rest / 128)) bytes++;
  return bytes;
}

/** The message is damaged. */
export class ProtobufError extends Error {}

/** Reads one message; nested ones get a reader of their own. Views are of the message's bytes. Throws ProtobufError. */
export class ProtobufReader {
  private readonly bytes: Buffer;
  private at = 0;
  private wireType = 0;

  constructor(bytes: Buffer) {
    this.bytes = bytes;
  }

  /** Number of the next member, or 0 at the end. The member must then be read or skipped. */
  next(): number {
    if (this.at >= this.bytes.length) return 0;
    const tag = this.varint();
    this.wireType = Number(tag & 7n);
    const field = Number(tag >> 3n);
    if (field === 0) throw new ProtobufError('a member has the number 0');
    return field;
  }

  uint64(): bigint {
    this.expect(VARINT);
    return this.varint();
  }

  /** An int32, uint32 or enumeration, as signed 32 bits. */
  int32(): number {
    return Number(BigInt.asIntN(32, this.uint64()));
  }

  bool(): boolean {
    return this.uint64() !== 0n;
  }

  double(): number {
    this.expect(FIXED64);
    this.at += 8;
    if (this.at > this.bytes.length) throw new ProtobufError('a member is cut off');
    return this.bytes.readDoubleLE(this.at - 8);
  }

  /** Adds the values of a repeated member, packed or one by one. */
  uints(values: bigint[]): void {
    if (this.wireType !== BYTES) return void values.push(this.uint64());
    const packed = new ProtobufReader(this.view());
    while (packed.at < packed.bytes.length) values.push(packed.varint());
  }

  view(): Buffer {
    this.expect(BYTES);
    const size = Number(this.varint());
    if (size > this.bytes.length - this.at) throw new ProtobufError('a member is cut off');
    this.at += size;
    return this.bytes.subarray(this.at - size, this.at);
  }

  text(): string {
    return this.view().toString('utf8');
  }

  message(): ProtobufReader {
    return new ProtobufReader(this.view());
  }

  skip(): void {
    if (this.wireType === VARINT) this.varint();
    else if (this.wireType === BYTES) this.view();
    else if (this.wireType === FIXED64 || this.wireType === FIXED32) {
      this.at += this.wireType === FIXED64 ? 8 : 4;
      if (this.at > this.bytes.length) throw new ProtobufError('a member is cut off');
    } else throw new ProtobufError(`wire type ${this.wireType} is unknown`);
  }

  private expect(wireType: number): void {
    if (this.wireType !== wireType) throw new ProtobufError('a member has the wrong type');
  }

  private varint(): bigint {
    let low = 0;
    let shift = 0;
    // Most are small enough for a number.
    for (; shift < 28; shift += 7) {
      const byte = this.byte();
      low |= (byte & 0x7f) << shift;
      if (byte < 0x80) return BigInt(low);
    }
    let value = BigInt(low);
    for (; shift < 70; shift += 7) {
      const byte = this.byte();
      value |= BigInt(byte & 0x7f) << BigInt(shift);
      if (byte < 0x80) return BigInt.asUintN(64, value);
    }
    throw new ProtobufError('a number is too long');
  }

  private byte(): number {
    const byte = this.bytes[this.at++];
    if (byte === undefined) throw new ProtobufError('the message is cut off');
    return byte;
  }
}
