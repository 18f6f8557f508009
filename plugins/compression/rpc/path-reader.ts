import { LRUCache } from 'lru-cache';
import { encode32 } from '../../../src/lib/base58.ts';
import { equalBytes } from '../../../src/lib/bytes.ts';
import { lazy } from '../../../src/lib/lazy.ts';
import { type Log, messageOf, type Store } from '../../../src/plugin/plugin.ts';
import { keysQuery, packedRows } from '../../../src/ports/raw-query.ts';
import { pathPages } from '../../../src/solana/merkle/path.ts';
import { type CompressionDb, readAtOneSlot, type TreeRow } from '../store/tables.ts';
import {
  DAMAGED,
  type LeafPlace,
  openPage,
  type PageNodes,
  type PathPages,
  type PathTree,
  pageId,
  readTreePages,
} from '../trees/page-book.ts';
import { withheld } from './fields.ts';
import { type ByBytes, indexByBytes } from './records.ts';

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
  paths(db: CompressionDb, places: readonly LeafPlace[]): Promise<readonly PathPages[]>;
  /**
   * Like `paths`, outside of a transaction: no statement if all pages are in memory, else one per tree. Null when the root of a tree has
   * changed, or when a transaction is cheaper because pages of many trees are missing.
   */
  pathsNow(db: CompressionDb, places: readonly LeafPlace[]): Promise<readonly PathPages[] | null>;
}

/** Trees whose pages are read one by one. */
const MAX_SINGLE_TREES = 4;

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
  // One statement sees one state: pages read with a root belong to that root.
  const pagesWithRoot = keysQuery<PageRow>(
    store,
    (isIn, place) =>
      'SELECT p.id, p.bytes, t.root FROM compression_trees t ' +
      `LEFT JOIN compression_pages p ON p.id ${isIn} WHERE t.id = ${place()}`,
  );

  /** The pages of a set of paths: those in memory, and those that have to be read. */
  function collect(places: readonly LeafPlace[]) {
    const known = new Map<number, PageNodes>();
    const missing = new Map<PathTree['id'], { readonly tree: PathTree; readonly ids: Set<number> }>();
    const keys = places.map(({ tree, leafIndex }) => {
      const state = cache.state(tree.id, tree.root);
      return pathPages(tree.height, leafIndex).map((key) => {
        const id = pageId(tree.id, key);
        if (known.has(id)) return id;
        const nodes = cache.get(id, state);
        if (nodes !== undefined) known.set(id, nodes);
        else {
          const others = missing.get(tree.id) ?? { tree, ids: new Set() };
          missing.set(tree.id, others);
          others.ids.add(id);
        }
        return id;
      });
    });
    return {
      missing: [...missing.values()],
      accept(tree: PathTree, ids: Iterable<number>, read: ReadonlyMap<number, Uint8Array | typeof DAMAGED>): void {
        const state = cache.state(tree.id, tree.root);
        for (const id of ids) {
          const nodes = checked(read.get(id) ?? null, tree);
          cache.set(id, state, nodes);
          known.set(id, nodes);
        }
      },
      paths(): readonly PathPages[] {
        const paths = keys.map((ids) => ids.map((id) => known.get(id) ?? null));
        for (const [i, place] of places.entries())
          if (verify?.(place, paths[i] ?? []) === false) throw new DamagedPage(place.tree);
        return paths;
      },
    };
  }

  return {
    async paths(db, places) {
      const { missing, accept, paths } = collect(places);
      const read = await readTreePages(
        db,
        missing.flatMap(({ ids }) => [...ids]),
      );
      for (const { tree, ids } of missing) accept(tree, ids, read);
      return paths();
    },

    async pathsNow(db, places) {
      const { missing, accept, paths } = collect(places);
      if (missing.length > MAX_SINGLE_TREES) return null;
      for (const { tree, ids } of missing) {
        const rows = await pagesWithRoot(db, [...ids], [tree.id]);
        if (rows[0] === undefined || !equalBytes(rows[0].root, tree.root)) return null;
        accept(
          tree,
          ids,
          new Map(rows.flatMap(({ id, bytes }) => (id === null || bytes === null ? [] : [[id, openPage(bytes)]]))),
        );
      }
      return paths();
    },
  };
}

function checked(nodes: PageNodes | typeof DAMAGED, tree: PathTree): PageNodes {
  if (nodes === DAMAGED) throw new DamagedPage(tree);
  return nodes;
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

interface CachedTree {
  readonly state: TreeState;
  readonly nodes: PageNodes;
}

/** Approximate size of an entry without its nodes. */
const ENTRY_BYTES = 256;
/** Trees whose last state is kept; beyond that all states are dropped, and the cached pages with them. */
const MAX_TREES = 10_000;

export function createPageCache(maxBytes: number): PageCache {
  const states = new Map<number, TreeState>();
  // Created with the first proof: most threads never make one.
  const pages = lazy(
    () =>
      new LRUCache<number, CachedTree>({
        maxSize: Math.max(maxBytes, ENTRY_BYTES),
        sizeCalculation: ({ nodes }) => ENTRY_BYTES + (nodes?.byteLength ?? 0),
      }),
  );
  return {
    state(tree, root) {
      const last = states.get(tree);
      if (last !== undefined && equalBytes(last.root, root)) return last;
      if (states.size >= MAX_TREES) states.clear();
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
      await (tx.db as CompressionDb)
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

function isProvable({ status }: Pick<TreeRow, 'status'>): boolean {
  return status !== 'diverged' && status !== 'gap';
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

/** Finds accounts with their paths by hash, for frequently called methods. */
export interface LeafFinder {
  /** One account. Calls of the same turn share their statements. Errors as below, and -32603 for a tree whose proofs are withheld. */
  find(hash: Uint8Array): Promise<LeafAtSlot>;
  /**
   * One statement while the pages are in memory. Accounts in trees whose proofs are withheld have no pages. Errors: DamagedPage; those of
   * the store.
   */
  findAll(hashes: readonly Uint8Array[]): Promise<FoundLeaves>;
}

interface LeafAtSlot {
  /** 0: nothing is indexed. */
  readonly slot: number;
  readonly leaf: FoundLeaf | null;
}

export interface FoundLeaves {
  readonly slot: number;
  readonly leaves: ByBytes<FoundLeaf>;
}

type LeafTree = Pick<TreeRow, 'id' | 'key' | 'type' | 'queue' | 'height' | 'seq' | 'root' | 'status' | 'reason'>;

/** An account, its tree, and the path at its leaf. Whether the leaf matches the account is not checked yet. */
export interface FoundLeaf {
  readonly hash: Uint8Array;
  readonly leafIndex: number;
  /** In the output queue. */
  readonly queued: boolean;
  readonly tree: LeafTree;
  readonly pages: PathPages;
}

interface Leaf {
  readonly hash: Uint8Array;
  readonly leafIndex: number;
  readonly queued: number;
}

/** A tree with its packed leaves; without, where none was found. */
type TreeRowWithLeaves = { readonly slot: number } & (
  | (LeafTree & { readonly leaves: string })
  | { readonly leaves: null }
);

/** The tree may change between two statements. */
const TRIES = 2;
const MAX_TOGETHER = 64;

export function createLeafFinder(store: Store, reader: PathReader): LeafFinder {
  const packed = packedRows<Leaf>(store, {
    numbers: { leafIndex: 'leaf_index', queued: 'queued' },
    bytes: { hash: 'hash' },
  });
  const select = keysQuery<TreeRowWithLeaves>(
    store,
    (isIn) =>
      'SELECT h.slot, found.leaves, t.id, t.key, t.type, t.queue, t.height, t.seq, t.root, t.status, t.reason ' +
      `FROM compression_head h LEFT JOIN (SELECT tree, ${packed.sql()} AS leaves FROM compression_accounts ` +
      `WHERE hash ${isIn} GROUP BY tree) found ON TRUE LEFT JOIN compression_trees t ON t.id = found.tree`,
  );

  /** Null: a tree has changed since its row was read. */
  async function once(
    db: CompressionDb,
    hashes: readonly Uint8Array[],
    pathsOf: PathReader['pathsNow'],
  ): Promise<FoundLeaves | null> {
    const rows = await select(db, hashes);
    const places = rows.flatMap((tree) =>
      tree.leaves === null
        ? []
        : packed.read(tree.leaves).map((leaf) => ({ ...leaf, queued: leaf.queued === 1, tree })),
    );
    const provable = places.filter(({ tree }) => isProvable(tree));
    const paths = await pathsOf(db, provable);
    if (paths === null) return null;
    const pages = new Map(provable.map((place, i) => [place, paths[i] ?? []]));
    const leaves = indexByBytes(
      places.map((place) => ({ ...place, pages: pages.get(place) ?? [] })),
      ({ hash }) => hash,
    );
    return { slot: rows[0]?.slot ?? 0, leaves };
  }

  async function findAll(hashes: readonly Uint8Array[]): Promise<FoundLeaves> {
    for (let tries = 0; tries < TRIES; tries += 1) {
      const found = await once(store.read as CompressionDb, hashes, reader.pathsNow);
      if (found !== null) return found;
    }
    const { value } = await readAtOneSlot(store, (db) => once(db, hashes, reader.paths));
    // In a transaction nothing changes.
    return value!;
  }

  async function findTogether(hashes: readonly Uint8Array[]): Promise<readonly LeafAtSlot[]> {
    const { slot, leaves } = await findAll(hashes);
    return hashes.map((hash) => ({ slot, leaf: leaves.get(hash) ?? null }));
  }

  const find = createGather({ most: MAX_TOGETHER, many: findTogether });
  return {
    findAll,
    async find(hash) {
      const found = await find(hash);
      if (found.leaf !== null) requireProvable(found.leaf.tree);
      return found;
    },
  };
}

/** Combines the questions of one turn of the event loop. */
type Gather<Question, Answer> = (question: Question) => Promise<Answer>;

interface GatherParts<Question, Answer> {
  /** Maximum number of questions per batch. */
  readonly most: number;
  /** In the order of the questions. When it fails for several, each question is asked individually and gets its own error. */
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
export function createGather<Question, Answer>({
  most,
  many,
}: GatherParts<Question, Answer>): Gather<Question, Answer> {
  let waiting: Waiting<Question, Answer>[] = [];

  const one = async (question: Question): Promise<Answer> => (await many([question]))[0] as Answer;

  async function answer(asked: readonly Waiting<Question, Answer>[]): Promise<void> {
    let answers: readonly Answer[] | null = null;
    if (asked.length > 1) answers = await many(asked.map(({ question }) => question)).catch(() => null);
    for (const [i, { question, resolve }] of asked.entries()) {
      if (answers === null) resolve(one(question));
      else resolve(answers[i] as Answer);
    }
  }

  function flush(): void {
    const all = waiting;
    waiting = [];
    for (let at = 0; at < all.length; at += most) void answer(all.slice(at, at + most));
  }

  return (question) =>
    new Promise((resolve) => {
      if (waiting.push({ question, resolve }) === 1) setImmediate(flush);
    });
}
