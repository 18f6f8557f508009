import { sql } from 'kysely';
import { decode32 } from '../../../src/lib/base58.ts';
import type { StoreTx } from '../../../src/plugin/plugin.ts';
import { TREE_TYPE } from '../../../src/solana/compression/events.ts';
import { LIGHT_ADDRESS_TREE, LIGHT_STATE_QUEUE, LIGHT_STATE_TREE } from '../../../src/solana/programs.ts';
import type { DeclaredTree } from '../config.ts';
import {
  createRowBook,
  INDEXED_LEAVES,
  KEYS_PER_STATEMENT,
  type RowBook,
  rowKeyText,
  TREES,
} from '../store/row-book.ts';
import type { CompressionDb, TreeRow } from '../store/tables.ts';
import { emptyRoot, freshTree, type Hashing } from './hashing.ts';
import { createPageBook, type PageBook } from './page-book.ts';

/** The trees that a block names, by key or by queue. */
export interface TreeBook {
  /** Reads the trees with these keys or queues, and all Light trees in one of these states. */
  load(keys: readonly Uint8Array[], statuses?: readonly string[]): Promise<void>;
  /** The tree with this key or queue; null when unknown. The key must have been loaded. */
  find(key: Uint8Array): TreeRow | null;
  byId(id: number): TreeRow;
  change(id: number, changes: Partial<TreeRow>): void;
  /**
   * Adds missing trees with the content of a fresh tree. `ids`: previous ids of trees, by `keyText` of their keys.
   */
  insert(trees: readonly NewTree[], ids?: ReadonlyMap<string, number>): Promise<void>;
  rows(): Iterable<TreeRow>;
}

/** A tree as described by its account, the configuration or the table of well-known trees. Keys are 32 bytes. */
export interface NewTree {
  readonly key: Uint8Array;
  /** `TREE_TYPE` of the Light programs, or `CONCURRENT_TREE`. */
  readonly type: number;
  /** The tree itself when it is its own queue; null when missing or unknown. */
  readonly queue: Uint8Array | null;
  readonly height: number;
  /** Null until the account was read. */
  readonly rootCapacity: number | null;
  readonly nextTree: Uint8Array | null;
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

/** Arbitrary, but the same in all processes that share a database. */
const INSERT_LOCK = 7_036_874_418;

export function createTreeBook({ tx, hashing, trees, leaves, pages }: TreeBookParts): TreeBook {
  const names = new Map<string, number>();
  const name = (row: TreeRow) => {
    if (row.queue !== null) names.set(rowKeyText([row.queue]), row.id);
    names.set(rowKeyText([row.key]), row.id);
  };
  const book: TreeBook = {
    async load(keys, statuses = []) {
      // Other processes change the state of trees too: rows read here are locked, because they are written back whole.
      const read = () => {
        const query = (tx.db as CompressionDb).selectFrom('compression_trees').selectAll();
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
      const id = names.get(rowKeyText([key]));
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
        // Another process may be adding the same trees or assigning the same ids.
        await sql`select pg_advisory_xact_lock(${INSERT_LOCK})`.execute(tx.db);
        await book.load(missingOf(fresh).map(({ key }) => key));
      }
      const missing = missingOf(fresh);
      const last = await (tx.db as CompressionDb)
        .selectFrom('compression_trees')
        .select((is) => is.fn.max('id').as('id'))
        .executeTakeFirst();
      let id = Math.max(0, last?.id ?? 0, ...ids.values(), ...Array.from(trees.rows(), (row) => row.id));
      for (const tree of missing) {
        const row = await plant(tree, ids.get(rowKeyText([tree.key])) ?? ++id);
        trees.put(row);
        name(row);
      }
    },
    rows: () => trees.rows(),
  };

  /** Without duplicates. */
  function missingOf(fresh: readonly NewTree[]): readonly NewTree[] {
    const known = new Set<string>();
    return fresh.filter(({ key }) => {
      const text = rowKeyText([key]);
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
      id,
      key: Uint8Array.from(key),
      type,
      queue,
      height,
      root_capacity: rootCapacity,
      next_tree: nextTree,
      seq,
      root,
      next_index: nextIndex,
      status: 'unverified',
      reason: null,
      expected_root: null,
      computed_root: null,
      verified_seq: null,
      verified_slot: null,
    };
  }
  return book;
}

/** Adds missing trees as fresh ones. Several threads may do so concurrently. */
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

/** Levels below the root by type of tree. */
const TREE_HEIGHT = {
  [TREE_TYPE.stateV1]: 26,
  [TREE_TYPE.addressV1]: 26,
  [TREE_TYPE.stateV2]: 32,
  [TREE_TYPE.addressV2]: 40,
} as const;

/** Well-known trees of the Light programs: type, tree, queue. */
const WELL_KNOWN: readonly (readonly [keyof typeof TREE_HEIGHT, string, string])[] = [
  [1, LIGHT_STATE_TREE, LIGHT_STATE_QUEUE],
  [1, 'smt2rJAFdyJJupwMKAqTNAJwvjhmiZ4JYGZmbVRw1Ho', 'nfq2hgS7NYemXsFaFUCe3EMXSDSfnZnAe27jC6aPP1X'],
  [2, LIGHT_ADDRESS_TREE, 'aq1S9z4reTSQAdgWHGD2zDaS39sjGrAxbR31vxJ2F4F'],
  [3, 'bmt1LryLZUMmF7ZtqESaw7wifBXLfXHQYoE4GAmrahU', 'oq1na8gojfdUhsfCpyjNt6h4JaDWtHf1yQj4koBWfto'],
  [3, 'bmt2UxoBxB9xWev4BkLvkGdapsz6sZGkzViPNph7VFi', 'oq2UkeMsJLfXt2QHzim242SUi3nvjJs8Pn7Eac9H9vg'],
  [3, 'bmt3ccLd4bqSVZVeCJnH1F6C8jNygAhaDfxDwePyyGb', 'oq3AxjekBWgo64gpauB6QtuZNesuv19xrhaC1ZM1THQ'],
  [3, 'bmt4d3p1a4YQgk9PeZv5s4DBUmbF5NxqYpk9HGjQsd8', 'oq4ypwvVGzCUMoiKKHWh4S1SgZJ9vCvKpcz6RT6A8dq'],
  [3, 'bmt5yU97jC88YXTuSukYHa8Z5Bi2ZDUtmzfkDTA2mG2', 'oq5oh5ZR3yGomuQgFduNDzjtGvVWfDRGLuDVjv9a96P'],
  [4, 'amt2kaJA14v3urZbZvnc5v2np8jqvc4Z8zDep5wbtzx', 'amt2kaJA14v3urZbZvnc5v2np8jqvc4Z8zDep5wbtzx'],
];

const key = (text: string): Uint8Array => {
  const bytes = decode32(text);
  if (bytes === null) throw new TypeError(`${text} is no key`);
  return bytes;
};

/** Trees that exist from the start: well-known and configured ones. */
export function knownTrees(declared: readonly DeclaredTree[]): readonly NewTree[] {
  const wellKnown = WELL_KNOWN.map(([type, tree, queue]) => ({
    key: key(tree),
    type,
    queue: key(queue),
    height: TREE_HEIGHT[type],
    rootCapacity: null,
    nextTree: null,
  }));
  const own = declared.map(({ tree, queue, type, height, rootHistoryCapacity }) => ({
    key: key(tree),
    type,
    height,
    rootCapacity: rootHistoryCapacity,
    nextTree: null,
    queue: queue === null ? (type === TREE_TYPE.addressV2 ? key(tree) : null) : key(queue),
  }));
  const redeclared = new Set(declared.map(({ tree }) => tree));
  return [...wellKnown.filter((_, i) => !redeclared.has(WELL_KNOWN[i]?.[1] ?? '')), ...own];
}
