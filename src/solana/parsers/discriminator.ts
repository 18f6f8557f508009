/** The first eight bytes of instruction data in hex, by which Anchor programs tell their instructions; empty when there are fewer. */
export function discriminatorOf(data: Uint8Array, at = 0): string {
  if (data.length < at + 8) return '';
  return Buffer.from(data.buffer, data.byteOffset + at, 8).toString('hex');
}
