/** A u64 as the tables keep it: 8 big-endian bytes. */
export function u64Bytes(value: bigint): Uint8Array {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64BE(value);
  return bytes;
}

export function u64Of(bytes: Uint8Array): bigint {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).readBigUInt64BE();
}

export const U64_MOST = 2n ** 64n - 1n;
