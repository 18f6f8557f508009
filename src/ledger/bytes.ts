/** Bytes in the order in which they are written and read; numbers as LEB128. */

/** Bytes that grow. */
export class Sink {
  bytes = Buffer.allocUnsafe(256);
  length = 0;

  private room(count: number): void {
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
    this.room(part.length);
    this.bytes.set(part, this.length);
    this.length += part.length;
  }

  latin1(text: string): void {
    this.room(text.length);
    this.bytes.write(text, this.length, 'latin1');
    this.length += text.length;
  }

  sized(part: Uint8Array): void {
    this.number(part.length);
    this.put(part);
  }

  get used(): Buffer {
    return this.bytes.subarray(0, this.length);
  }
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

  sized(): Buffer {
    return this.take(this.number());
  }
}
