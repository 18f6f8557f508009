import { equalBytes } from '../../../src/lib/equal-bytes.ts';
import { GROUP_WIDTH, nodeOffset } from '../../../src/solana/merkle/pages.ts';
import { HASH_BYTES } from '../../../src/solana/merkle/zero-hashes.ts';
import type { PathPages } from './path-reader.ts';

/** Whether the leaf of this path is the hash, which is not zero. */
export function isLeaf([page]: PathPages, leafIndex: number, hash: Uint8Array): boolean {
  if (page == null) return false;
  const offset = nodeOffset(0, leafIndex % GROUP_WIDTH);
  return equalBytes(page.subarray(offset, offset + HASH_BYTES), hash);
}

/** The leaf of a path. */
export function leafOf([page]: PathPages, leafIndex: number): Uint8Array {
  const offset = nodeOffset(0, leafIndex % GROUP_WIDTH);
  return page == null ? new Uint8Array(HASH_BYTES) : page.subarray(offset, offset + HASH_BYTES);
}
