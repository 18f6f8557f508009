import { offsetOf, pageKey, pageOf } from './pages.ts';
import { HASH_BYTES } from './zero-hashes.ts';

/** Keys of the pages that a path from this leaf to the root goes through. */
export function pathPages(height: number, index: number): number[] {
  const keys = new Set<number>();
  for (let level = 0; level < height; level += 1) keys.add(pageKey(pageOf(level, Math.floor(index / 2 ** level))));
  return [...keys];
}

/**
 * The siblings on the way from a leaf to the root, bottom-up, `height` of them: each is a look-up. `page` gives null where everything
 * is empty.
 */
export function siblings(
  height: number,
  index: number,
  page: (key: number) => Uint8Array | null,
  zeros: Uint8Array,
): Uint8Array[] {
  return Array.from({ length: height }, (_, level) => {
    const node = Math.floor(index / 2 ** level);
    const sibling = node % 2 === 0 ? node + 1 : node - 1;
    const bytes = page(pageKey(pageOf(level, sibling)));
    const offset = bytes === null ? level * HASH_BYTES : offsetOf(level, sibling);
    return (bytes ?? zeros).subarray(offset, offset + HASH_BYTES);
  });
}
