import type { Store } from '../../../src/plugin/plugin.ts';
import { rawQuery } from '../../../src/ports/raw-query.ts';
import { byBytes, distinctBytes } from '../rpc/records.ts';
import { type Db, readAtOneSlot, type TreeRow } from '../store/tables.ts';
import { type PathPages, type PathReader, requireProvable } from './path-reader.ts';

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

/** Answers many askers of the same turn of the event loop together. */
type Gather<Question, Answer> = (question: Question) => Promise<Answer>;

interface GatherParts<Question, Answer> {
  /** Questions that are answered together at most. */
  readonly most: number;
  /** Fewer are asked one by one. */
  readonly fewest: number;
  one(question: Question): Promise<Answer>;
  /** In the order of the questions. When it fails, each is asked alone, and has an error of its own. */
  many(questions: readonly Question[]): Promise<readonly Answer[]>;
}

interface Waiting<Question, Answer> {
  readonly question: Question;
  readonly resolve: (answer: Answer | Promise<Answer>) => void;
}

/**
 * Requests that came in together are read from the sockets in one turn of the loop. What they ask is looked up when that turn is over, and
 * so never before a question was asked.
 */
export function createGather<Question, Answer>(parts: GatherParts<Question, Answer>): Gather<Question, Answer> {
  let waiting: Waiting<Question, Answer>[] = [];

  async function answer(asked: readonly Waiting<Question, Answer>[]): Promise<void> {
    let answers: readonly Answer[] | null = null;
    if (asked.length >= parts.fewest)
      answers = await parts.many(asked.map(({ question }) => question)).catch(() => null);
    for (const [i, { question, resolve }] of asked.entries()) {
      if (answers === null) resolve(parts.one(question));
      else resolve(answers[i] as Answer);
    }
  }

  function flush(): void {
    const all = waiting;
    waiting = [];
    for (let at = 0; at < all.length; at += parts.most) void answer(all.slice(at, at + parts.most));
  }

  return (question) =>
    new Promise((resolve) => {
      if (waiting.push({ question, resolve }) === 1) setImmediate(flush);
    });
}

type FoundTree = Pick<TreeRow, 'id' | 'key' | 'type' | 'queue' | 'height' | 'seq' | 'root' | 'status' | 'reason'>;

/** An account, its tree, and the path that the tree has at its leaf. Nothing says yet that the leaf is the account. */
interface FoundLeaf {
  readonly leafIndex: number;
  /** Waits in the output queue. */
  readonly queued: boolean;
  readonly tree: FoundTree;
  readonly pages: PathPages;
}

const TREE_COLUMNS = ['id', 'key', 'type', 'queue', 'height', 'seq', 'root', 'status', 'reason'] as const;

/**
 * What `LeafFinder.find` answers, for many hashes of one state of the store: three statements at most. Errors: those of a single hash;
 * they tell nothing of the others then.
 */
async function findLeaves(
  db: Db,
  reader: PathReader,
  hashes: readonly Uint8Array[],
): Promise<readonly (FoundLeaf | null)[]> {
  const accounts = await db
    .selectFrom('compression_accounts')
    .select(['hash', 'tree', 'leaf_index', 'queued'])
    .where('hash', 'in', distinctBytes(hashes))
    .execute();
  if (accounts.length === 0) return hashes.map(() => null);
  const ids = [...new Set(accounts.map(({ tree }) => tree))];
  const rows = await db.selectFrom('compression_trees').select(TREE_COLUMNS).where('id', 'in', ids).execute();
  for (const row of rows) requireProvable(row);
  const trees = new Map<number, FoundTree>(rows.map((row) => [row.id, row]));
  const places = accounts.flatMap(({ hash, tree, leaf_index: leafIndex, queued }) => {
    const row = trees.get(tree);
    return row === undefined ? [] : [{ hash, tree: row, leafIndex, queued: queued === 1 }];
  });
  const pages = await reader.paths(db, places);
  const found = byBytes(
    places.map((place, i) => ({ ...place, pages: pages[i] ?? [] })),
    ({ hash }) => hash,
  );
  return hashes.map((hash) => found.get(hash) ?? null);
}
