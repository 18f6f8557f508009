import type { Store } from '../../../src/kernel/plugin.ts';
import { rawQuery } from '../store/raw-query.ts';
import { readAtOneSlot } from '../store/snapshot-read.ts';
import type { Db, TreeRow } from '../store/tables.ts';
import type { PathPages, PathReader } from './path-reader.ts';
import { requireProvable } from './refusal.ts';

export type FoundTree = Pick<
  TreeRow,
  'id' | 'key' | 'type' | 'queue' | 'height' | 'seq' | 'root' | 'status' | 'reason'
>;

/** An account, its tree, and the path that the tree has at its leaf. Nothing says yet that the leaf is the account. */
export interface FoundLeaf {
  readonly leafIndex: number;
  /** Waits in the output queue. */
  readonly queued: boolean;
  readonly tree: FoundTree;
  readonly pages: PathPages;
}

/** Finds one account by its hash, for methods that are called often. */
export interface LeafFinder {
  /** Mostly one statement. Slot 0: nothing is indexed. Errors: -32603 for a tree that may not be proved; DamagedPage; those of the store. */
  find(hash: Uint8Array): Promise<{ readonly slot: number; readonly leaf: FoundLeaf | null }>;
}

interface LeafRow {
  readonly slot: number;
  readonly leaf_index: number;
  readonly queued: number;
  readonly id: number;
  readonly key: Uint8Array;
  readonly type: number;
  readonly queue: Uint8Array | null;
  readonly height: number;
  readonly seq: number;
  readonly root: Uint8Array;
  readonly status: string;
  readonly reason: string | null;
}

const TRIES = 3;

export function createLeafFinder(store: Store, reader: PathReader): LeafFinder {
  const select = rawQuery<LeafRow>(
    store,
    (place) =>
      'SELECT h.slot, a.leaf_index, a.queued, t.id, t.key, t.type, t.queue, t.height, t.seq, t.root, t.status, t.reason ' +
      'FROM compression_accounts a JOIN compression_trees t ON t.id = a.tree CROSS JOIN compression_head h ' +
      `WHERE a.hash = ${place()}`,
  );

  /** Null leaf pages: the tree moved on between the two statements. */
  async function once(db: Db, hash: Uint8Array) {
    const [row] = await select(db, [hash]);
    if (row === undefined) return { slot: await headOf(db), leaf: null };
    requireProvable(row);
    const pages = await reader.path(db, { tree: row, leafIndex: row.leaf_index });
    if (pages === null) return null;
    return { slot: row.slot, leaf: { leafIndex: row.leaf_index, queued: row.queued === 1, tree: row, pages } };
  }

  return {
    async find(hash) {
      for (let tries = 0; tries < TRIES; tries += 1) {
        const found = await once(store.read as Db, hash);
        if (found !== null) return found;
      }
      const { slot, value } = await readAtOneSlot(store, (db) => once(db, hash));
      return { slot, leaf: value?.leaf ?? null };
    },
  };
}

async function headOf(db: Db): Promise<number> {
  const head = await db.selectFrom('compression_head').select('slot').executeTakeFirst();
  return head?.slot ?? 0;
}
