/** A place in a buffer that moves forward and never passes its end. */
export interface WireReader {
  readonly bytes: Uint8Array;
  at: number;
  end: number;
}

/** Reads a compact-u16 of one to three bytes. -1 when it is cut off, longer than needed, or above 65,535. */
export function readLength(reader: WireReader): number {
  const { bytes, end } = reader;
  const at = reader.at;
  if (at >= end) return -1;
  const first = bytes[at]!;
  if (first < 0x80) {
    reader.at = at + 1;
    return first;
  }
  if (at + 1 >= end) return -1;
  const second = bytes[at + 1]!;
  if (second < 0x80) {
    reader.at = at + 2;
    return second === 0 ? -1 : (first & 0x7f) | (second << 7);
  }
  if (at + 2 >= end) return -1;
  const third = bytes[at + 2]!;
  reader.at = at + 3;
  return third === 0 || third > 3 ? -1 : (first & 0x7f) | ((second & 0x7f) << 7) | (third << 14);
}

/** Passes over `count` bytes and answers where they began, or -1 when there are not so many. */
export function skip(reader: WireReader, count: number): number {
  const from = reader.at;
  if (count > reader.end - from) return -1;
  reader.at = from + count;
  return from;
}
