import { LRUCache } from 'lru-cache';
import { encode32 } from '../../../src/lib/base58.ts';
import { equalBytes } from '../../../src/lib/equal-bytes.ts';
import { lazy } from '../../../src/lib/lru.ts';
import { type Log, messageOf, type Store } from '../../../src/plugin/plugin.ts';
import { type RawQuery, rawQuery } from '../../../src/ports/raw-query.ts';
import { pathPages } from '../../../src/solana/merkle/path.ts';
import { type Db, readAtOneSlot, type TreeRow } from '../store/tables.ts';
import { DAMAGED, openPage, pageId, readPages } from '../trees/page-book.ts';
import type { LeafPlace, PageNodes, PathPages, PathTree } from '../trees/path.ts';
import { withheld } from './fields.ts';
import { byBytes, distinctBytes } from './records.ts';

/** A stored page differs from what was written. */
class DamagedPage extends Error {
  readonly tree: PathTree;

  constructor(tree: PathTree) {
    super(`a page of tree ${tree.id} is damaged`);
    this.name = 'DamagedPage';
    this.tree = tree;
  }
}

export interface PathReader {
  /**
   * The pages of many paths. The trees must have been read in the transaction of `db`. At most one statement per 500 uncached
   * pages. Errors: DamagedPage; those of the store.
   */
  paths(db: Db, places: readonly LeafPlace[]): Promise<readonly PathPages[]>;
  /**
   * The pages of one path, also outside of a transaction, with at most one statement. Null when the root of the tree has changed.
   * Errors as above.
   */
  path(db: Db, place: LeafPlace): Promise<PathPages | null>;
}

interface PageRow {
  readonly id: number | null;
  readonly bytes: Uint8Array | null;
  readonly root: Uint8Array;
}

interface PathReaderParts {
  readonly store: Pick<Store, 'dialect'>;
  readonly cache: PageCache;
  /** Whether the path leads to the root; absent: not checked again after writing. */
  readonly verify?: (place: LeafPlace, pages: PathPages) => boolean;
}

export function createPathReader({ store, cache, verify }: PathReaderParts): PathReader {
  const queries = new Map<number, RawQuery<PageRow>>();
  const queryFor = (count: number): RawQuery<PageRow> => {
    const query = queries.get(count) ?? pagesWithRoot(store, count);
    queries.set(count, query);
    return query;
  };

  const requireVerified = (place: LeafPlace, pages: PathPages): void => {
    if (verify?.(place, pages) === false) throw new DamagedPage(place.tree);
  };

  return {
    async paths(db, places) {
      const known = new Map<number, PageNodes>();
      const missing = new Map<number, { readonly tree: PathTree; readonly state: TreeState }>();
      const keys = places.map(({ tree, leafIndex }) => {
        const state = cache.state(tree.id, tree.root);
        return pathPages(tree.height, leafIndex).map((key) => {
          const id = pageId(tree.id, key);
          const nodes = cache.get(id, state);
          if (nodes === undefined) missing.set(id, { tree, state });
          else known.set(id, nodes);
          return id;
        });
      });
      const read = await readPages(db, [...missing.keys()]);
      for (const [id, { tree, state }] of missing) {
        const nodes = checked(read.get(id) ?? null, tree);
        cache.set(id, state, nodes);
        known.set(id, nodes);
      }
      const paths = keys.map((ids) => ids.map((id) => known.get(id) ?? null));
      for (const [i, place] of places.entries()) requireVerified(place, paths[i] ?? []);
      return paths;
    },

    async path(db, place) {
      const { tree, leafIndex } = place;
      const state = cache.state(tree.id, tree.root);
      const ids = pathPages(tree.height, leafIndex).map((key) => pageId(tree.id, key));
      const pages = ids.map((id) => cache.get(id, state));
      if (pages.every((nodes) => nodes !== undefined)) {
        requireVerified(place, pages);
        return pages;
      }
      const missing = ids.filter((_, i) => pages[i] === undefined);
      // Few statement texts, each prepared once: ids may repeat.
      const rows = await queryFor(ids.length)(db, [...ids.map((_, i) => missing[i] ?? missing[0]), tree.id]);
      if (rows[0] === undefined || Buffer.compare(rows[0].root, tree.root) !== 0) return null;
      const read = new Map(rows.map(({ id, bytes }) => [id, bytes]));
      const path = ids.map((id, i) => {
        const cached = pages[i];
        if (cached !== undefined) return cached;
        const bytes = read.get(id) ?? null;
        const nodes = checked(bytes === null ? null : openPage(bytes), tree);
        cache.set(id, state, nodes);
        return nodes;
      });
      requireVerified(place, path);
      return path;
    },
  };
}

function checked(nodes: PageNodes | typeof DAMAGED, tree: PathTree): PageNodes {
  if (nodes === DAMAGED) throw new DamagedPage(tree);
  return nodes;
}

/** One statement sees one state: pages read with a root belong to that root. */
function pagesWithRoot(store: Pick<Store, 'dialect'>, count: number): RawQuery<PageRow> {
  return rawQuery(store, (place) => {
    const ids = Array.from({ length: count }, () => place()).join(', ');
    return `SELECT p.id, p.bytes, t.root FROM compression_trees t LEFT JOIN compression_pages p ON p.id IN (${ids}) WHERE t.id = ${place()}`;
  });
}

/**
 * A state of a tree. The root of a Merkle tree fixes every node below it and so versions all its pages, whichever process writes to
 * the store: pages read together with the same root are equal. One object per state, compared by identity.
 */
interface TreeState {
  readonly root: Uint8Array;
}

/** Pages that were read, with the state of their tree. */
interface PageCache {
  /** The state with this root: the last one of the tree if it matches, else a new one. */
  state(tree: number, root: Uint8Array): TreeState;
  /** Undefined when the content of the page in this state is unknown. */
  get(id: number, state: TreeState): PageNodes | undefined;
  set(id: number, state: TreeState, nodes: PageNodes): void;
}

interface Entry {
  readonly state: TreeState;
  readonly nodes: PageNodes;
}

/** Approximate size of an entry without its nodes. */
const ENTRY_BYTES = 256;
/** Trees whose last state is kept; beyond that all states are dropped, and the cached pages with them. */
const MOST_TREES = 10_000;

export function createPageCache(maxBytes: number): PageCache {
  const states = new Map<number, TreeState>();
  // Created with the first proof: most threads never make one.
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

/** Runs reads of paths; marks a tree with a damaged page, so that it is repaired. Errors: -32603 that names it; those of `work`. */
export type DamageGuard = <T>(work: () => Promise<T>) => Promise<T>;

/** Why a tree is diverged. */
const REASON = 'page';

export function createDamageGuard(store: Store, log: Log): DamageGuard {
  async function mark(tree: PathTree): Promise<void> {
    await store.write(async (tx) => {
      await (tx.db as Db)
        .updateTable('compression_trees')
        .set({ status: 'diverged', reason: REASON })
        .where('id', '=', tree.id)
        .where('status', '<>', 'diverged')
        .execute();
    });
  }
  return async (work) => {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof DamagedPage)) throw error;
      const { key, seq } = error.tree;
      log.error({ tree: encode32(key), seq }, 'a stored page of a Merkle tree is damaged');
      // The response is an error even if the mark cannot be written.
      await mark(error.tree).catch((failure: unknown) => {
        log.error({ tree: encode32(key), error: messageOf(failure) }, 'the damaged tree could not be marked');
      });
      throw diverged(key, seq, REASON);
    }
  };
}

/** Throws when the proofs of the tree could be wrong. Errors: -32603 that names it. */
export function requireProvable({
  key,
  seq,
  status,
  reason,
}: Pick<TreeRow, 'key' | 'seq' | 'status' | 'reason'>): void {
  if (status === 'diverged') throw diverged(key, seq, reason ?? 'root');
  if (status === 'gap') {
    const why = `is missing updates after sequence ${seq}; its proofs are withheld while they are fetched`;
    throw withheld(`Merkle tree ${encode32(key)} ${why}`);
  }
}

function diverged(key: Uint8Array, seq: number, reason: string) {
  const why = `has diverged from the chain at sequence ${seq} (${reason}); its proofs are withheld`;
  return withheld(`Merkle tree ${encode32(key)} ${why}`);
}

/** Finds one account by its hash, for frequently called methods. */
export interface LeafFinder {
  /**
   * One statement for a single request with cached pages, few for requests that are combined. Slot 0: nothing is indexed.
   * Errors: -32603 for a tree whose proofs are withheld; DamagedPage; those of the store.
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
/** A transaction costs as much as several statements. */
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

  /** Null leaf pages: the tree changed between the two statements. */
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

/** Batches requests of the same event-loop turn. */
type Gather<Question, Answer> = (question: Question) => Promise<Answer>;

interface GatherParts<Question, Answer> {
  /** Maximum number of questions per batch. */
  readonly most: number;
  /** Fewer questions are asked individually. */
  readonly fewest: number;
  one(question: Question): Promise<Answer>;
  /** In the order of the questions. When it fails, each question is asked individually and gets its own error. */
  many(questions: readonly Question[]): Promise<readonly Answer[]>;
}

interface Waiting<Question, Answer> {
  readonly question: Question;
  readonly resolve: (answer: Answer | Promise<Answer>) => void;
}

/**
 * Requests that arrive together are read from the sockets in one turn of the event loop. Their look-up runs at the end of that turn,
 * so it never sees a state older than a request.
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

/** An account, its tree, and the path at its leaf. Whether the leaf matches the account is not checked yet. */
interface FoundLeaf {
  readonly leafIndex: number;
  /** In the output queue. */
  readonly queued: boolean;
  readonly tree: FoundTree;
  readonly pages: PathPages;
}

const TREE_COLUMNS = ['id', 'key', 'type', 'queue', 'height', 'seq', 'root', 'status', 'reason'] as const;

/**
 * `LeafFinder.find` for many hashes in one state of the store, with at most three statements. Errors: those of a single hash;
 * the others are then unknown.
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
