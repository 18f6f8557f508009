import type { Log } from '../../../src/kernel/plugin.ts';
import { encode32 } from '../../../src/lib/base58.ts';
import type { Counter } from '../../../src/ports/metrics.ts';
import type { Db, TreeRow } from '../store/tables.ts';
import type { CnftBlock } from './cnft-block.ts';
import type { CnftBooks } from './cnft-books.ts';
import { CONCURRENT_TREE, type ConcurrentHashing } from './concurrent-tree.ts';

export interface AdmissionParts {
  readonly hashing: ConcurrentHashing;
  readonly log: Log;
  readonly faults: Pick<Counter, 'add'>;
}

type TreeIds = ReadonlyMap<string, number>;

/** Ids of trees have 16 bits in the ids of pages; some are left to the Light programs. */
const MOST_TREES = 60_000;

/**
 * Adds the trees that a block names for the first time, and turns away from those that can no longer be followed. Afterwards all of them
 * are loaded.
 */
export function createTreeAdmission({ hashing, log, faults }: AdmissionParts) {
  async function insert({ tx, trees }: CnftBooks, block: CnftBlock, ids?: TreeIds): Promise<void> {
    const fresh = new Map(
      block.trees.filter(({ key }) => trees.find(key) === null).map((tree) => [encode32(tree.key), tree]),
    );
    if (fresh.size === 0) return;
    const last = await (tx.db as Db)
      .selectFrom('compression_trees')
      .select((is) => is.fn.max('id').as('id'))
      .executeTakeFirst();
    if ((last?.id ?? 0) + fresh.size > MOST_TREES) {
      log.error({ most: MOST_TREES }, 'no more concurrent trees fit the index: name those that matter');
      return;
    }
    await trees.insert([...fresh.values()], ids);
    for (const { key, height } of fresh.values()) {
      const { id } = trees.find(key) as TreeRow;
      trees.change(id, { root: hashing.emptyRoot(height) });
    }
  }

  function suspect({ trees }: CnftBooks, { suspects, trees: named, slot }: CnftBlock): void {
    const odd = named.flatMap(({ key, height }) =>
      trees.find(key)?.height === height ? [] : [{ key, reason: 'height' }],
    );
    for (const { key, reason } of [...odd, ...suspects]) {
      const row = trees.find(key);
      if (row === null || row.type !== CONCURRENT_TREE || row.reason === reason) continue;
      trees.change(row.id, { status: 'diverged', reason });
      log.warn({ tree: encode32(key), slot, reason }, 'a concurrent tree can no longer be followed');
    }
  }

  return async (books: CnftBooks, block: CnftBlock, ids?: TreeIds): Promise<void> => {
    await books.trees.load([...block.trees, ...block.suspects].map(({ key }) => key));
    await insert(books, block, ids);
    suspect(books, block);
    for (const fault of block.faults)
      log.warn({ ...fault, slot: block.slot }, 'a change of a concurrent tree cannot be read');
    faults.add(block.faults.length);
  };
}
