import { HASH_BYTES } from './zero-hashes.ts';

/**
 * Nodes lie in pages of six levels: a path through a tree of height 26 touches 5 of them, one of height 40 seven. Page `number` of
 * group g holds a subtree of the levels 6g to 6g + 5 without its root: 64 nodes, 32, .. 2, in this order.
 */
export const GROUP_LEVELS = 6;
/** Leaves of the subtree of a page. */
export const GROUP_WIDTH = 2 ** GROUP_LEVELS;
const PAGE_NODES = 2 * GROUP_WIDTH - 2;
const PAGE_BYTES = PAGE_NODES * HASH_BYTES;

export interface PageAddress {
  readonly group: number;
  readonly number: number;
}

/** Pages on a path through a tree of this height. */
export const groupsOf = (height: number): number => Math.ceil(height / GROUP_LEVELS);

/** Divides by a power of two; leaf indexes go beyond 32 bits. */
const halved = (index: number, times: number) => Math.floor(index / 2 ** times);

/** The page that holds a node. */
export function pageOf(level: number, index: number): PageAddress {
  const group = Math.floor(level / GROUP_LEVELS);
  return { group, number: halved(index, GROUP_LEVELS * (group + 1) - level) };
}

/** Byte of a node within its page. */
export function offsetOf(level: number, index: number): number {
  const depth = level % GROUP_LEVELS;
  return nodeOffset(depth, index % (GROUP_WIDTH >> depth));
}

/** The same for the node with this place among those of its page and level. */
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
    // Above the root there is nothing.
    const zero = zeros.subarray(level * HASH_BYTES, (level + 1) * HASH_BYTES);
    for (let i = 0; i < GROUP_WIDTH >> depth; i += 1, at += HASH_BYTES) page.set(zero, at);
  }
  return page;
}
