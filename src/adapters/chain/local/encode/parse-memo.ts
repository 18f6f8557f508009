/** A memo is its text; bytes that are no UTF-8 are shown unparsed. */
export function parseMemo(data: Uint8Array): string | null {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(data);
  } catch {
    return null;
  }
}
