/** Whether two byte strings are equal. */
export function equalBytes(one: Uint8Array, other: Uint8Array): boolean {
  if (one.length !== other.length) return false;
  for (let i = 0; i < one.length; i += 1) if (one[i] !== other[i]) return false;
  return true;
}
