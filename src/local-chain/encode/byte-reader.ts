import { encode32 } from '../../lib/base58.ts';
import { exact } from '../ledger/record.ts';

export type ByteReader = ReturnType<typeof byteReader>;

/** Reads consecutive little-endian fields. Throws RangeError at the end of the bytes. */
export function byteReader(bytes: Uint8Array) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 0;
  const take = (size: number): number => {
    if (!(size >= 0) || at + size > bytes.length) throw new RangeError('the bytes end too early');
    at += size;
    return at - size;
  };
  const key = (): string => encode32(bytes, take(32));
  const u8 = (): number => view.getUint8(take(1));
  const u32 = (): number => view.getUint32(take(4), true);
  const u64 = (): bigint => view.getBigUint64(take(8), true);
  const raw = (size: number): Uint8Array => bytes.subarray(take(size), at);
  const list = <T>(count: number, item: () => T): T[] => {
    // Each item has at least one byte: a false length must not allocate a long list.
    if (count > bytes.length - at) throw new RangeError('the bytes end too early');
    return Array.from({ length: count }, item);
  };
  return {
    u8,
    u16: (): number => view.getUint16(take(2), true),
    i16: (): number => view.getInt16(take(2), true),
    u32,
    u64,
    f64: (): number => view.getFloat64(take(8), true),
    bool: (): boolean => u8() === 1,
    /** A number when exact, else a bigint. */
    amount: (): number | bigint => exact(u64()),
    time: (): number | bigint => exact(view.getBigInt64(take(8), true)),
    key,
    /** A key, or null for 32 zeros. */
    keyOrNone(): string | null {
      const found = key();
      return found === NO_KEY ? null : found;
    },
    /** Tag byte, then the value if the tag is 1. */
    option: <T>(read: () => T): T | null => (u8() === 1 ? read() : null),
    optionalKey: (): string | null => (u8() === 1 ? key() : null),
    raw,
    rest: (): Uint8Array => raw(bytes.length - at),
    left: (): number => bytes.length - at,
    list,
    /** u64 length, then UTF-8. */
    text: (): string => utf8(raw(Number(u64()))),
    /** u32 length, then UTF-8. */
    shortText: (): string => utf8(raw(u32())),
    /** Seven bits per byte, low bits first. */
    varint(): bigint {
      let value = 0n;
      for (let shift = 0n; shift < 64n; shift += 7n) {
        const byte = u8();
        value |= BigInt(byte & 0x7f) << shift;
        if (byte < 0x80) return value;
      }
      throw new RangeError('a number of more than 64 bits');
    },
  };
}

const NO_KEY = '11111111111111111111111111111111';

function utf8(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('utf8');
}
