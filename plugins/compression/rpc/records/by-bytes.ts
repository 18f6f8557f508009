/** Rows by a key of bytes. */
export interface ByBytes<T> {
  get(key: Uint8Array): T | undefined;
}

export function byBytes<T>(rows: readonly T[], keyOf: (row: T) => Uint8Array): ByBytes<T> {
  const map = new Map(rows.map((row) => [nameOf(keyOf(row)), row]));
  return { get: (key) => map.get(nameOf(key)) };
}

/** Every key once, in order of first appearance. */
export function distinctBytes(keys: readonly Uint8Array[]): Uint8Array[] {
  return [...new Map(keys.map((key) => [nameOf(key), key])).values()];
}

const nameOf = (key: Uint8Array) => Buffer.from(key.buffer, key.byteOffset, key.length).toString('latin1');
