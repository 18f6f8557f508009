import { encode32 } from '../../../../lib/base58.ts';
import { exact } from '../ledger/record.ts';

export type ByteReader = ReturnType<typeof byteReader>;

/** Reads little-endian fields one after the other. Throws RangeError at the end of the bytes. */
export function byteReader(bytes: Uint8Array) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 0;
  const take = (size: number): number => {
    if (at + size > bytes.length) throw new RangeError('the bytes end too early');
    at += size;
    return at - size;
  };
  const key = (): string => encode32(bytes, take(32));
  const u64 = (): bigint => view.getBigUint64(take(8), true);
  return {
    u8: (): number => view.getUint8(take(1)),
    u32: (): number => view.getUint32(take(4), true),
    u64,
    /** A number where that is exact. */
    amount: (): number | bigint => exact(u64()),
    key,
    /** Tag byte, then the key if the tag is 1. */
    optionalKey: (): string | null => (view.getUint8(take(1)) === 1 ? key() : null),
    /** u64 length, then UTF-8. */
    text: (): string => {
      const length = Number(u64());
      const from = take(length);
      return Buffer.from(bytes.subarray(from, from + length)).toString('utf8');
    },
  };
}
