import { encode32 } from '../../../src/lib/base58.ts';
import { isLagBeyond } from '../../../src/lib/slot-length.ts';
import {
  type ChainReader,
  type Clock,
  defineRoute,
  type HealthCheck,
  json,
  type Log,
  type Metrics,
  type Route,
  type Store,
  Type,
} from '../../../src/plugin/plugin.ts';
import type { ChainStatus } from '../../../src/ports/chain.ts';
import type { ChainGap, GapRecords } from '../../../src/ports/following.ts';
import { LIGHT_STATE_QUEUE, LIGHT_STATE_TREE } from '../../../src/solana/programs.ts';
import * as s from '../../../src/solana/schemas.ts';
import type { DeclaredTree } from '../config.ts';
import { createPeriodicWork } from '../repeat.ts';
import { type CompressionDb, readAtOneSlot, type TreeRow } from '../store/tables.ts';
import { knownTrees } from '../trees/tree-book.ts';
import { type ReadingParts, type Repair, rangesBeingRead } from './repair.ts';
import { type RefreshParts, type RootCheck, refreshTrees } from './root-check.ts';

interface ChainWatchParts {
  readonly store: Store;
  /** Null without an upstream. */
  readonly chain: ChainReader | null;
  readonly refresh: RefreshParts | null;
  /** Run one after the other while the index is near the tip. */
  readonly checks: readonly (Pick<RootCheck, 'pass'> | null)[];
  readonly repairs: readonly Repair[];
  readonly metrics: Metrics;
  readonly clock: Clock;
  readonly log: Log;
}

interface ChainWatch {
  start(): void;
  stop(): Promise<void>;
}

const CHECK_MS = 5_000;
const FIRST_CHECK_MS = 1_000;
const REFRESH_MS = 3_600_000;
const REFRESH_RETRY_MS = 30_000;
/** Distance to the tip within which accounts of the chain can be compared with rows. */
const NEAR_TIP = { seconds: 8, slots: null };

/** By the slots that upstreams report: a chain that makes no blocks can be compared like any other. */
function isAtTip({ tipSlot, cursorSlot, slotMs }: ChainStatus): boolean {
  return tipSlot !== null && cursorSlot !== null && !isLagBeyond({ lagSlots: tipSlot - cursorSlot, slotMs }, NEAR_TIP);
}

/** In `tree_status`. */
const STATUS_VALUE: Readonly<Record<string, number>> = { ok: 0, unverified: 1, gap: 2, diverged: 3 };

/** Background checks of the trees: their accounts, roots, queues and repairs. */
export function createChainWatch(parts: ChainWatchParts): ChainWatch {
  const { chain, refresh, checks, repairs, clock, log } = parts;
  const repeats = createPeriodicWork(clock, log);
  const updateMetrics = createTreeMetrics(parts);

  async function look(signal: AbortSignal): Promise<number> {
    await updateMetrics();
    const status = chain?.status() ?? null;
    // Only the process that writes blocks checks the trees.
    const isNear = status !== null && status.isStandby !== true && isAtTip(status);
    try {
      if (isNear) for (const check of checks) await check?.pass(signal);
    } finally {
      // A failed check must not block repairs.
      if (chain === null || isNear) for (const repair of repairs) await repair.pass(signal);
    }
    return CHECK_MS;
  }

  return {
    start() {
      if (refresh !== null)
        repeats.add('reading the accounts of the trees', 0, REFRESH_RETRY_MS, async (signal) => {
          await refreshTrees(refresh, signal);
          return REFRESH_MS;
        });
      repeats.add('checking the trees', FIRST_CHECK_MS, CHECK_MS, look);
    },
    stop: repeats.stop,
  };
}

/** Trees of compressed NFTs can be numerous. */
const MAX_GAUGES = 1_000;

/** Updates the gauges of each tree. */
function createTreeMetrics({ store, metrics }: ChainWatchParts): () => Promise<void> {
  const status = metrics.gauge(
    'tree_status',
    'state of a tree: 0 ok, 1 unverified, 2 updates are missing, 3 diverged',
    ['tree'],
  );
  const seq = metrics.gauge('tree_seq', 'sequence number up to which a tree is indexed', ['tree']);
  return async () => {
    const rows = await (store.read as CompressionDb)
      .selectFrom('compression_trees')
      .select(['key', 'status', 'seq'])
      .orderBy('id')
      .limit(MAX_GAUGES)
      .execute();
    for (const row of rows) {
      const name = encode32(row.key);
      status.with(name).set(STATUS_VALUE[row.status] ?? STATUS_VALUE['diverged'] ?? 0);
      seq.with(name).set(row.seq);
    }
  };
}

const MAX_NAMED = 3;

/** Fails while proofs of a well-known tree are withheld; other trees do not count. */
export function createTreeCheck(store: Store, declared: readonly DeclaredTree[]): HealthCheck {
  const own = new Set(declared.map(({ tree }) => tree));
  const keys = knownTrees(declared)
    .map(({ key }) => key)
    .filter((key) => !own.has(encode32(key)));
  return {
    name: 'compression trees',
    async run() {
      const rows = await (store.read as CompressionDb)
        .selectFrom('compression_trees')
        .select(['key', 'status', 'seq'])
        .where('key', 'in', keys)
        .where('status', 'in', ['gap', 'diverged'])
        .orderBy('id')
        .execute();
      if (rows.length === 0) return { ok: true, detail: 'no proofs are withheld' };
      const named = rows.slice(0, MAX_NAMED).map(({ key, status, seq }) => `${encode32(key)} (${status} at ${seq})`);
      const more = rows.length > MAX_NAMED ? ` and ${rows.length - MAX_NAMED} more` : '';
      return { ok: false, detail: `proofs are withheld of ${named.join(', ')}${more}` };
    },
  };
}

const MAX_TREES = 1_000;

export const treeState = Type.Object(
  {
    tree: s.address('The tree', LIGHT_STATE_TREE),
    queue: s.orNull(s.address('Its queue', LIGHT_STATE_QUEUE)),
    type: s.count('1 state V1, 2 address V1, 3 state V2, 4 address V2, 5 compressed NFTs'),
    size: s.count('Leaves', 120),
    root: s.hash('Newest root'),
    rootSeq: s.count('Sequence number of the root', 120),
    state: s.text('ok, unverified, gap or diverged; proofs of the last two are withheld', 'ok'),
    reason: s.orNull(s.text('Why it is not ok', 'the root of the chain differs')),
    expectedRoot: s.orNull(s.hash('Root on the chain at the difference')),
    computedRoot: s.orNull(s.hash('Our root at the difference')),
    verifiedSeq: s.orNull(s.count('Newest root that was found on the chain', 120)),
    lag: s.orNull(s.count('Slots since then', 0)),
    reading: s.orNull(
      Type.Object(
        {
          fromSlot: s.slot('First slot of the range'),
          toSlot: s.slot('Last slot of the range'),
          filledTo: s.orNull(s.slot('Slot up to which it was read')),
          status: s.text('open or filling', 'filling'),
        },
        { title: 'TreeReading', description: 'The range of slots that is read again for the tree' },
      ),
    ),
  },
  { title: 'TreeState', description: 'State of a tree' },
);

interface TreesRouteParts extends Omit<ReadingParts, 'gaps'> {
  /** Null: nothing is followed, so nothing is read again. */
  readonly gaps: GapRecords | null;
}

/** `GET /v0/admin/compression/trees`: state of the trees. */
export function treesRoute({ store, gaps, processor }: TreesRouteParts): Route {
  return defineRoute({
    method: 'GET',
    path: '/v0/admin/compression/trees',
    summary: 'State of the Merkle trees of compressed accounts',
    tag: { name: 'Operation', description: 'Health, metrics and state of the daemon' },
    auth: 'admin',
    errors: 'plain',
    replies: {
      200: Type.Object(
        { slot: s.slot('Newest indexed slot'), trees: Type.Array(treeState, { description: 'The trees' }) },
        { description: 'State of the trees' },
      ),
    },
    async handler() {
      const { slot, value } = await readAtOneSlot(store, (db) => readTrees(db));
      // What is whole is not read again.
      const refused = value.filter(({ status }) => status !== 'ok');
      const ranges =
        gaps === null ? new Map<number, ChainGap>() : await rangesBeingRead({ store, gaps, processor }, refused);
      return json({ slot, trees: value.map((row) => viewOf(row, slot, ranges.get(row.id) ?? null)) });
    },
  });
}

const readTrees = (db: CompressionDb): Promise<TreeRow[]> =>
  db.selectFrom('compression_trees').selectAll().orderBy('id').limit(MAX_TREES).execute();

const text = (bytes: Uint8Array | null) => (bytes === null ? null : encode32(bytes));

const viewOf = (row: TreeRow, slot: number, reading: ChainGap | null) => ({
  tree: encode32(row.key),
  queue: text(row.queue),
  type: row.type,
  size: row.next_index,
  root: encode32(row.root),
  rootSeq: row.seq,
  state: row.status,
  reason: row.reason,
  expectedRoot: text(row.expected_root),
  computedRoot: text(row.computed_root),
  verifiedSeq: row.verified_seq,
  lag: row.verified_slot === null ? null : Math.max(0, slot - row.verified_slot),
  reading:
    reading === null
      ? null
      : { fromSlot: reading.fromSlot, toSlot: reading.toSlot, filledTo: reading.filledTo, status: reading.status },
});
