/** The u64 at `at`, or null when the data ends too early. */
export function u64At(data: Uint8Array, at: number): bigint | null {
  if (at < 0 || at + 8 > data.length) return null;
  return new DataView(data.buffer, data.byteOffset, data.length).getBigUint64(at, true);
}

/** The u32 at `at`, or -1 when the data ends too early. */
export function u32At(data: Uint8Array, at: number): number {
  if (at < 0 || at + 4 > data.length) return -1;
  return new DataView(data.buffer, data.byteOffset, data.length).getUint32(at, true);
}
