/** Bytes in the order in which they are written and read; numbers as LEB128. */

/** Up to here a loop is faster than a call of the runtime. */
const SHORT = 24;

/** Bytes that grow. */
export class ByteSink {
  bytes: Buffer;
  length = 0;

  constructor(capacity = 256) {
    this.bytes = Buffer.allocUnsafe(capacity);
  }

  /** So that `count` bytes more fit. */
  room(count: number): void {
    if (this.length + count <= this.bytes.length) return;
    const larger = Buffer.allocUnsafe(Math.max(this.bytes.length * 2, this.length + count));
    this.bytes.copy(larger, 0, 0, this.length);
    this.bytes = larger;
  }

  byte(value: number): void {
    this.room(1);
    this.bytes[this.length++] = value;
  }

  number(value: number): void {
    this.room(8);
    let rest = value;
    while (rest > 0x7f) {
      this.bytes[this.length++] = (rest % 128) | 0x80;
      rest = Math.floor(rest / 128);
    }
    this.bytes[this.length++] = rest;
  }

  put(part: Uint8Array): void {
    const { length } = part;
    this.room(length);
    if (length > SHORT) this.bytes.set(part, this.length);
    else for (let at = 0; at < length; at++) this.bytes[this.length + at] = part[at]!;
    this.length += length;
  }

  latin1(text: string): void {
    const { length } = text;
    this.room(length);
    if (length > SHORT) this.bytes.write(text, this.length, 'latin1');
    else for (let at = 0; at < length; at++) this.bytes[this.length + at] = text.charCodeAt(at);
    this.length += length;
  }

  sized(part: Uint8Array): void {
    this.number(part.length);
    this.put(part);
  }

  get used(): Buffer {
    return this.bytes.subarray(0, this.length);
  }
}

/**
 * Memory of one look-up, which the next one reuses. V8 counts short-lived buffers as memory pressure: with a buffer for each piece, every
 * 40th look-up waited for a full garbage collection.
 */
export class Scratch {
  /** For the text of a part. */
  readonly text = new ByteSink(0);
  private bytes = Buffer.allocUnsafe(SCRATCH_BYTES);
  private used = 0;

  take(length: number): Buffer {
    if (this.used + length > this.bytes.length) {
      this.bytes = Buffer.allocUnsafe(Math.max(2 * this.bytes.length, length));
      this.used = 0;
    }
    this.used += length;
    return this.bytes.subarray(this.used - length, this.used);
  }

  clear(): void {
    this.used = 0;
  }

  get isSmall(): boolean {
    return this.bytes.length + this.text.bytes.length <= MAX_SCRATCH_BYTES;
  }
}

const SCRATCH_BYTES = 262_144;
const MAX_SCRATCH_BYTES = 4_194_304;
const MAX_SPARE = 4;
const spare: Scratch[] = [];

/** Nothing that `work` returns may be part of its scratch. */
export async function withScratch<T>(work: (scratch: Scratch) => Promise<T>): Promise<T> {
  const scratch = spare.pop() ?? new Scratch();
  const result = await work(scratch);
  // After an error a read may still write into it.
  scratch.clear();
  if (scratch.isSmall && spare.length < MAX_SPARE) spare.push(scratch);
  return result;
}

export class Source {
  at = 0;
  readonly bytes: Buffer;

  constructor(bytes: Buffer) {
    this.bytes = bytes;
  }

  get isAtEnd(): boolean {
    return this.at >= this.bytes.length;
  }

  byte(): number {
    if (this.at >= this.bytes.length) throw new RangeError('the encoded block ends early');
    return this.bytes[this.at++]!;
  }

  number(): number {
    let value = 0;
    for (let scale = 1; ; scale *= 128) {
      const byte = this.byte();
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) return value;
    }
  }

  /** Passes over a number. */
  pass(): void {
    while (this.byte() >= 0x80);
  }

  /** A count of things of at least one byte each. */
  room(count: number): number {
    if (count > this.bytes.length - this.at) throw new RangeError('the encoded block ends early');
    return count;
  }

  take(count: number): Buffer {
    if (this.at + count > this.bytes.length) throw new RangeError('the encoded block ends early');
    this.at += count;
    return this.bytes.subarray(this.at - count, this.at);
  }

  skip(count: number): void {
    if (this.at + count > this.bytes.length) throw new RangeError('the encoded block ends early');
    this.at += count;
  }

  sized(): Buffer {
    return this.take(this.number());
  }
}

/** A copy: what is kept for long must not keep the text that it was cut from. */
export const ownText = (text: string): string => Buffer.from(text, 'latin1').toString('latin1');
