import { u64Of } from '../../store/u64.ts';

/** A u64 as JSON shows it: bare digits. Numbers where they are exact, because the writer is quicker without bigints. */
export function u64Json(bytes: Uint8Array): number | bigint {
  return numberJson(u64Of(bytes));
}

export function numberJson(value: bigint): number | bigint {
  return value <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(value) : value;
}

/** The eight bytes of a discriminator, which clients know as a little-endian number. */
export function discriminatorJson(bytes: Uint8Array): number | bigint {
  return numberJson(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).readBigUInt64LE());
}
