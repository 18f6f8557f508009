import type { Poseidon } from './poseidon.ts';

export const HASH_BYTES = 32;

/**
 * Nodes are stored in pages of six levels: a path through a tree of height 26 touches 5 of them, one of height 40 seven. Page `number` of
 * group g holds a subtree of the levels 6g to 6g + 5 without its root: 64 nodes, 32, .. 2, in this order.
 */
export const GROUP_LEVELS = 6;
/** Leaves of the subtree of a page. */
export const GROUP_WIDTH = 2 ** GROUP_LEVELS;
const PAGE_NODES = 2 * GROUP_WIDTH - 2;
const PAGE_BYTES = PAGE_NODES * HASH_BYTES;

interface PageAddress {
  readonly group: number;
  readonly number: number;
}

/** Pages on a path through a tree of this height. */
const groupsOf = (height: number): number => Math.ceil(height / GROUP_LEVELS);

/** Divides by a power of two; leaf indexes exceed 32 bits. */
const halved = (index: number, times: number) => Math.floor(index / 2 ** times);

/** The page of a node. */
export function pageAddressOf(level: number, index: number): PageAddress {
  const group = Math.floor(level / GROUP_LEVELS);
  return { group, number: halved(index, GROUP_LEVELS * (group + 1) - level) };
}

/** Byte offset of a node within its page. */
export function offsetOf(level: number, index: number): number {
  const depth = level % GROUP_LEVELS;
  return nodeOffset(depth, index % (GROUP_WIDTH >> depth));
}

/** Byte offset of the node with index `place` on its level of the page. */
export const nodeOffset = (depth: number, place: number): number =>
  (2 * (GROUP_WIDTH - (GROUP_WIDTH >> depth)) + place) * HASH_BYTES;

/** One number for a page of a tree: group in the upper bits, below 2^37 for trees up to height 40. */
export function pageKey({ group, number }: PageAddress): number {
  return group * 2 ** 34 + number;
}

/** A page of empty subtrees. */
export function emptyPage(group: number, zeros: Uint8Array): Uint8Array {
  const page = new Uint8Array(PAGE_BYTES);
  let at = 0;
  for (let depth = 0; depth < GROUP_LEVELS; depth += 1) {
    const level = GROUP_LEVELS * group + depth;
    // Nothing exists above the root.
    const zero = zeros.subarray(level * HASH_BYTES, (level + 1) * HASH_BYTES);
    for (let i = 0; i < GROUP_WIDTH >> depth; i += 1, at += HASH_BYTES) page.set(zero, at);
  }
  return page;
}

/** Keys of the pages on the path from this leaf to the root, bottom-up. */
export function pathPages(height: number, index: number): number[] {
  const keys: number[] = [];
  for (let group = 0, number = index; group < groupsOf(height); group += 1) {
    number = Math.floor(number / GROUP_WIDTH);
    keys.push(pageKey({ group, number }));
  }
  return keys;
}

/**
 * The siblings on the path from a leaf to the root, bottom-up, `height` of them: each is a look-up. `page` returns null for an empty
 * page.
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
    const bytes = page(pageKey(pageAddressOf(level, sibling)));
    const offset = bytes === null ? level * HASH_BYTES : offsetOf(level, sibling);
    return (bytes ?? zeros).subarray(offset, offset + HASH_BYTES);
  });
}

/**
 * Passes the siblings one by one as byte offsets, over the pages of the path bottom-up (null: empty page).
 * Allocates nothing.
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

/** Concatenated hashes of empty subtrees by height, from 0 to `height`. */
export function zeroHashes(poseidon: Pick<Poseidon, 'hashPairs'>, height: number): Uint8Array {
  const zeros = new Uint8Array((height + 1) * HASH_BYTES);
  const pair = new Uint8Array(2 * HASH_BYTES);
  for (let level = 1; level <= height; level += 1) {
    const below = zeros.subarray((level - 1) * HASH_BYTES, level * HASH_BYTES);
    pair.set(below);
    pair.set(below, HASH_BYTES);
    poseidon.hashPairs(pair, 0, zeros, level * HASH_BYTES, 1);
  }
  return zeros;
}
