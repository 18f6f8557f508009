import { setImmediate as letOthersGo } from 'node:timers/promises';
import { encode32 } from '../../../../src/lib/base58.ts';
import { offsetOf, pageKey, pageOf } from '../../../../src/solana/merkle/pages.ts';
import { pathPages } from '../../../../src/solana/merkle/path.ts';
import { HASH_BYTES } from '../../../../src/solana/merkle/zero-hashes.ts';
import type { PageNodes } from '../../proofs/page-cache.ts';
import type { PathPages } from '../../proofs/path-reader.ts';

/** The paths of some leaves of one tree. */
export interface TreePaths {
  readonly height: number;
  readonly root: Uint8Array;
  readonly leafIndexes: readonly number[];
  /** Of each of them. */
  readonly pages: readonly PathPages[];
  readonly zeros: Uint8Array;
}

/** A node of the tree, as far as it lies on or beside one of the paths. */
export type NodeAt = (level: number, position: number) => Uint8Array;

export function nodesOf(paths: TreePaths): NodeAt {
  const byKey = new Map<number, PageNodes>();
  addPages(byKey, paths, 0, paths.leafIndexes.length);
  return nodeFinder(paths, byKey);
}

function addPages(byKey: Map<number, PageNodes>, { height, leafIndexes, pages }: TreePaths, from: number, to: number) {
  for (let i = from; i < to; i += 1)
    pathPages(height, leafIndexes[i] ?? 0).forEach((key, group) => void byKey.set(key, pages[i]?.[group] ?? null));
}

function nodeFinder({ height, root, zeros }: TreePaths, byKey: ReadonlyMap<number, PageNodes>): NodeAt {
  return (level, position) => {
    if (level === height) return root;
    const page = byKey.get(pageKey(pageOf(level, position))) ?? null;
    const offset = page === null ? level * HASH_BYTES : offsetOf(level, position);
    return (page ?? zeros).subarray(offset, offset + HASH_BYTES);
  };
}

/** Nodes after which others get their turn. */
const NODES_PER_TURN = 4_096;
const LEVEL_SHIFT = 56n;

/**
 * `{"index":…,"hash":"…"}` of the leaves, their siblings and those of all their ancestors, and the ancestors, each once and by index:
 * the level in the uppermost byte, the position below.
 */
export async function nodeTexts(paths: TreePaths): Promise<readonly string[]> {
  const byKey = new Map<number, PageNodes>();
  for (let from = 0; from < paths.leafIndexes.length; from += NODES_PER_TURN) {
    addPages(byKey, paths, from, Math.min(from + NODES_PER_TURN, paths.leafIndexes.length));
    await letOthersGo();
  }
  const nodeAt = nodeFinder(paths, byKey);
  const texts: string[] = [];
  let positions = [...new Set(paths.leafIndexes)].sort((a, b) => a - b);
  for (let level = 0; level <= paths.height && positions.length > 0; level += 1) {
    const upper = BigInt(level) << LEVEL_SHIFT;
    const parents: number[] = [];
    for (const position of positions) {
      const parent = Math.floor(position / 2);
      if (parents.at(-1) !== parent) parents.push(parent);
    }
    const shown = level === paths.height ? positions : parents.flatMap((parent) => [2 * parent, 2 * parent + 1]);
    for (const position of shown) {
      texts.push(`{"index":${upper | BigInt(position)},"hash":"${encode32(nodeAt(level, position))}"}`);
      if (texts.length % NODES_PER_TURN === 0) await letOthersGo();
    }
    positions = parents;
  }
  return texts;
}
