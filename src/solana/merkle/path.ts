import { GROUP_LEVELS, GROUP_WIDTH, groupsOf, nodeOffset, offsetOf, pageKey, pageOf } from './pages.ts';
import { HASH_BYTES } from './zero-hashes.ts';

/** Keys of the pages that a path from this leaf to the root goes through, bottom-up. */
export function pathPages(height: number, index: number): number[] {
  const keys: number[] = [];
  for (let group = 0, number = index; group < groupsOf(height); group += 1) {
    number = Math.floor(number / GROUP_WIDTH);
    keys.push(pageKey({ group, number }));
  }
  return keys;
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

/**
 * The same siblings, told one by one as places in bytes, over the pages of the path bottom-up (null: everything in it is empty).
 * Nothing is made for them.
 */
export function eachSibling(
  height: number,
  index: number,
  pages: readonly (Uint8Array | null)[],
  zeros: Uint8Array,
  use: (bytes: Uint8Array, offset: number) => void,
): void {
  let number = index;
  for (let group = 0, level = 0; level < height; group += 1) {
    const page = pages[group] ?? null;
    const place = number % GROUP_WIDTH;
    for (let depth = 0; depth < GROUP_LEVELS && level < height; depth += 1, level += 1) {
      if (page === null) use(zeros, level * HASH_BYTES);
      else use(page, nodeOffset(depth, (place >> depth) ^ 1));
    }
    number = Math.floor(number / GROUP_WIDTH);
  }
}
