import type { Store } from '../../../src/kernel/plugin.ts';
import { rawQuery } from '../../../src/ports/raw-query.ts';
import { readAtOneSlot } from '../store/snapshot-read.ts';
import type { Db } from '../store/tables.ts';
import { createGather } from './gather.ts';
import { type FoundLeaf, findLeaves } from './leaf-batch.ts';
import type { PathReader } from './path-reader.ts';
import { requireProvable } from './refusal.ts';

/** Finds one account by its hash, for methods that are called often. */
export interface LeafFinder {
  /**
   * One statement when it is asked alone and the pages are cached, few for all that are asked together. Slot 0: nothing is indexed.
   * Errors: -32603 for a tree that may not be proved; DamagedPage; those of the store.
   */
  find(hash: Uint8Array): Promise<Found>;
}

interface Found {
  readonly slot: number;
  readonly leaf: FoundLeaf | null;
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
/** A transaction costs as much as some statements. */
const FEWEST_TOGETHER = 4;
const MOST_TOGETHER = 64;

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

  async function findOne(hash: Uint8Array): Promise<Found> {
    for (let tries = 0; tries < TRIES; tries += 1) {
      const found = await once(store.read as Db, hash);
      if (found !== null) return found;
    }
    const { slot, value } = await readAtOneSlot(store, (db) => once(db, hash));
    return { slot, leaf: value?.leaf ?? null };
  }

  async function findMany(hashes: readonly Uint8Array[]): Promise<readonly Found[]> {
    const { slot, value } = await readAtOneSlot(store, (db) => findLeaves(db, reader, hashes));
    return value.map((leaf) => ({ slot, leaf }));
  }

  return { find: createGather({ most: MOST_TOGETHER, fewest: FEWEST_TOGETHER, one: findOne, many: findMany }) };
}

async function headOf(db: Db): Promise<number> {
  const head = await db.selectFrom('compression_head').select('slot').executeTakeFirst();
  return head?.slot ?? 0;
}
