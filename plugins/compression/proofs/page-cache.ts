import { LRUCache } from 'lru-cache';
import { equalBytes } from '../../../src/lib/equal-bytes.ts';
import { lazy } from '../../../src/lib/lazy.ts';

/**
 * A state of a tree. The root of a Merkle tree fixes every node below it, so it is the version of all its pages: whoever else writes to
 * the store, pages that were read together with the same root are the same. One object per state, compared by identity.
 */
export interface TreeState {
  readonly root: Uint8Array;
}

/** Nodes of a page, or null where the store has none because all of it is empty. */
export type PageNodes = Uint8Array | null;

/** Pages that were read, with the state of their tree. */
export interface PageCache {
  /** The state with this root: the last one of the tree when that has it, else a new one. */
  state(tree: number, root: Uint8Array): TreeState;
  /** Undefined when it is not known how the page looks in this state. */
  get(id: number, state: TreeState): PageNodes | undefined;
  set(id: number, state: TreeState, nodes: PageNodes): void;
}

interface Entry {
  readonly state: TreeState;
  readonly nodes: PageNodes;
}

/** Of an entry beside its nodes, roughly. */
const ENTRY_BYTES = 256;
/** Trees whose last state is known; beyond them all are forgotten, and with them what is cached of their pages. */
const MOST_TREES = 10_000;

export function createPageCache(maxBytes: number): PageCache {
  const states = new Map<number, TreeState>();
  // Made with the first proof: most threads never make one.
  const pages = lazy(
    () =>
      new LRUCache<number, Entry>({
        maxSize: Math.max(maxBytes, ENTRY_BYTES),
        sizeCalculation: ({ nodes }) => ENTRY_BYTES + (nodes?.byteLength ?? 0),
      }),
  );
  return {
    state(tree, root) {
      const last = states.get(tree);
      if (last !== undefined && equalBytes(last.root, root)) return last;
      if (states.size >= MOST_TREES) states.clear();
      const state = { root: Uint8Array.from(root) };
      states.set(tree, state);
      return state;
    },
    get(id, state) {
      const entry = pages().get(id);
      return entry?.state === state ? entry.nodes : undefined;
    },
    set(id, state, nodes) {
      pages().set(id, { state, nodes });
    },
  };
}
