import { sql } from 'kysely';
import type { StoreTx } from '../../../src/plugin/plugin.ts';
import { TREE_TYPE } from '../../../src/solana/compression/events.ts';
import { createRowBook, INDEXED_LEAVES, KEYS_PER_STATEMENT, keyText, type RowBook, TREES } from '../store/row-book.ts';
import type { Db, TreeRow } from '../store/tables.ts';
import { emptyRoot, freshTree, type Hashing } from './hashing.ts';
import { createPageBook, type PageBook } from './page-book.ts';
import type { NewTree } from './tree-update.ts';

/** The trees that a block names, by key or by queue. */
export interface TreeBook {
  /** Reads the trees with these keys or queues, and all trees of the Light programs in one of these states. */
  load(keys: readonly Uint8Array[], statuses?: readonly string[]): Promise<void>;
  /** The tree with this key or this queue; null when it is not known. The key has been loaded. */
  find(key: Uint8Array): TreeRow | null;
  byId(id: number): TreeRow;
  change(id: number, changes: Partial<TreeRow>): void;
  /**
   * Adds trees that are not there yet, each with what a fresh tree holds. `ids` are those that trees had before, by `keyText` of their keys.
   */
  insert(trees: readonly NewTree[], ids?: ReadonlyMap<string, number>): Promise<void>;
  rows(): Iterable<TreeRow>;
}

interface TreeBookParts {
  readonly tx: StoreTx;
  readonly hashing: Hashing;
  readonly trees: RowBook<TreeRow>;
  readonly leaves: RowBook<{
    tree: number;
    leaf_index: number;
    value: Uint8Array;
    next_index: number;
    next_value: Uint8Array;
    seq: number;
  }>;
  readonly pages: PageBook;
}

/** Any number: processes that share a database agree on it. */
const INSERT_LOCK = 7_036_874_418;

export function createTreeBook({ tx, hashing, trees, leaves, pages }: TreeBookParts): TreeBook {
  const names = new Map<string, number>();
  const name = (row: TreeRow) => {
    if (row.queue !== null) names.set(keyText([row.queue]), row.id);
    names.set(keyText([row.key]), row.id);
  };
  const book: TreeBook = {
    async load(keys, statuses = []) {
      // Others change the state of trees beside us: what is read here is written as a whole at the end.
      const read = () => {
        const query = (tx.db as Db).selectFrom('compression_trees').selectAll();
        return tx.dialect === 'postgres' ? query.forUpdate() : query;
      };
      for (let at = 0; at < keys.length; at += KEYS_PER_STATEMENT) {
        const some = keys.slice(at, at + KEYS_PER_STATEMENT);
        const named = read().where((is) => is.or([is('key', 'in', some), is('queue', 'in', some)]));
        trees.adopt(await named.execute());
      }
      if (statuses.length > 0)
        trees.adopt(
          await read()
            .where('status', 'in', [...statuses])
            .where('type', '<=', TREE_TYPE.addressV2)
            .execute(),
        );
      for (const row of trees.rows()) name(row);
    },
    find(key) {
      const id = names.get(keyText([key]));
      return id === undefined ? null : trees.get(id);
    },
    byId(id) {
      const row = trees.get(id);
      if (row === null) throw new Error(`there is no tree ${id}`);
      return row;
    },
    change(id, changes) {
      trees.put({ ...book.byId(id), ...changes });
    },
    async insert(fresh, ids = new Map()) {
      if (missingOf(fresh).length === 0) return;
      if (tx.dialect === 'postgres') {
        // Another process may be adding the same ones, or giving away the same ids, at this moment.
        await sql`select pg_advisory_xact_lock(${INSERT_LOCK})`.execute(tx.db);
        await book.load(missingOf(fresh).map(({ key }) => key));
      }
      const missing = missingOf(fresh);
      const last = await (tx.db as Db)
        .selectFrom('compression_trees')
        .select((is) => is.fn.max('id').as('id'))
        .executeTakeFirst();
      let id = Math.max(0, last?.id ?? 0, ...ids.values(), ...Array.from(trees.rows(), (row) => row.id));
      for (const tree of missing) {
        const row = await plant(tree, ids.get(keyText([tree.key])) ?? ++id);
        trees.put(row);
        name(row);
      }
    },
    rows: () => trees.rows(),
  };

  /** Each once. */
  function missingOf(fresh: readonly NewTree[]): readonly NewTree[] {
    const known = new Set<string>();
    return fresh.filter(({ key }) => {
      const text = keyText([key]);
      const isNew = !known.has(text) && book.find(key) === null;
      known.add(text);
      return isNew;
    });
  }

  async function plant({ key, type, queue, height, rootCapacity, nextTree }: NewTree, id: number): Promise<TreeRow> {
    const { seq, nextIndex, values, leaves: changes } = freshTree(hashing, type);
    values.forEach((value, leaf_index) => {
      leaves.put({ tree: id, leaf_index, ...value, seq });
    });
    let root = emptyRoot(hashing, height);
    if (changes.length > 0) {
      await pages.load([{ id, height, leaves: changes }]);
      const [updated] = hashing.update([{ height, page: (page) => pages.page(id, page), leaves: changes }]);
      if (updated !== undefined) {
        pages.accept(id, updated);
        root = Uint8Array.from(updated.root);
      }
    }
    return {
      ...{ id, key: Uint8Array.from(key), type, queue, height, root_capacity: rootCapacity, next_tree: nextTree },
      ...{ seq, root, next_index: nextIndex, status: 'unverified', reason: null },
      ...{ expected_root: null, computed_root: null, verified_seq: null, verified_slot: null },
    };
  }
  return book;
}

/** Writes trees that are not there yet, as fresh ones. Several threads may do so at once. */
export async function seedTrees(tx: StoreTx, hashing: Hashing, known: readonly NewTree[]): Promise<void> {
  const [trees, leaves] = [createRowBook(tx, TREES), createRowBook(tx, INDEXED_LEAVES)];
  const pages = createPageBook(tx);
  const book = createTreeBook({ tx, hashing, trees, leaves, pages });
  await book.load(known.flatMap(({ key, queue }) => (queue === null ? [key] : [key, queue])));
  await book.insert(known);
  await trees.flush();
  await leaves.flush();
  await pages.flush();
}
