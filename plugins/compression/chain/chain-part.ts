import { encode32 } from '../../../src/lib/base58.ts';
import { isLagBeyond } from '../../../src/lib/chain-lag.ts';
import type { HostContext } from '../../../src/plugin/host.ts';
import {
  type ChainReader,
  type Clock,
  type Command,
  defineRoute,
  type HealthCheck,
  json,
  type Log,
  type Metrics,
  type Route,
  type Store,
  Type,
} from '../../../src/plugin/plugin.ts';
import type { GapBook } from '../../../src/ports/gaps.ts';
import { snapshotCommands } from '../commands/snapshot.ts';
import { verifyCommand } from '../commands/verify.ts';
import type { CompressionConfig, DeclaredTree } from '../config.ts';
import type { Cnft } from '../das/cnft.ts';
import { createAccountReader } from '../das/tree-history.ts';
import { createSnapshotKeeper } from '../snapshot/keeper.ts';
import { NOTES, readNote } from '../store/notes.ts';
import { type Db, readAtOneSlot, type TreeRow } from '../store/tables.ts';
import type { Hashing } from '../trees/hashing.ts';
import { knownTrees } from '../trees/known-trees.ts';
import { rebuildTree } from '../trees/rebuild.ts';
import { createMissingUpdates } from './missing-updates.ts';
import { createQueueCheck, createQueueReader } from './queue-check.ts';
import { createRepair, type Repair } from './repair.ts';
import { createRepeats } from './repeat.ts';
import { createRootCheck, type RefreshParts, type RootCheck, refreshTrees } from './root-check.ts';
import { createTreeReader } from './tree-reader.ts';

/** What the plugin has to do with the chain beside its blocks, and what keeps and checks its state. */
interface ChainPart {
  /** Where the processor begins; known once `start` has run. */
  startSlot(): number | undefined;
  readonly checks: readonly HealthCheck[];
  readonly routes: readonly Route[];
  readonly commands: readonly Command[];
  start(): Promise<void>;
  stop(signal: AbortSignal): Promise<void>;
}

const PROCESSOR = { name: 'compression', version: 1 } as const;

export function createChainPart(
  ctx: HostContext<CompressionConfig>,
  gaps: GapBook | null,
  hashing: Hashing,
  cnft: Cnft | null = null,
): ChainPart {
  const { config, store, clock, log, random, metrics } = ctx;
  const chain = ctx.chain('main');
  const reader = chain === null ? null : createTreeReader(chain, config, ctx.core.follow.commitment);
  const genesisHash = async () => (chain === null ? null : await chain.call<string>('getGenesisHash', []));
  const queues =
    chain === null || !config.verifyChain
      ? null
      : createQueueCheck({ store, hashing, reader: createQueueReader(chain, ctx.core.follow.commitment), log });
  const isDoubted = (tree: TreeRow) => queues?.isDoubted(tree) ?? false;
  const check = reader === null || !config.verifyChain ? null : createRootCheck({ store, reader, log, isDoubted });
  const missing =
    reader === null || gaps === null
      ? null
      : createMissingUpdates({
          ...{ store, gaps, reader, log, processor: PROCESSOR, maxUpdates: config.historyMaxUpdates },
          firstSlot: async () => FIRST_SLOTS[(await genesisHash()) ?? ''] ?? 0,
        });
  const repair = createRepair({
    ...{ store, hashing, reader, missing, clock, log, leavesHistory: config.startSlot === 'latest' },
    rebuild: (tree, signal) => rebuildTree({ store, hashing }, tree, signal),
  });
  const newestSlot = async () =>
    chain === null ? 0 : await chain.call<number>('getSlot', [{ commitment: ctx.core.follow.commitment }]);
  const refresh = reader === null || check === null ? null : { store, hashing, reader, check, log, newestSlot };
  const repairs = [
    repair,
    ...(cnft === null || gaps === null || chain === null
      ? []
      : [
          cnft.repair({
            ...{ store, gaps, processor: PROCESSOR, maxUpdates: config.historyMaxUpdates, clock, log },
            account: createAccountReader(chain, ctx.core.follow.commitment),
            lightHashing: hashing,
          }),
        ]),
  ];
  const watch = createChainWatch({ store, chain, refresh, checks: [check, queues], repairs, metrics, clock, log });
  const keeper = createSnapshotKeeper({ store, config, chain, clock, log, genesisHash });
  let startSlot: number | undefined;
  const works = config.index && ctx.roles.has('indexer');
  return {
    startSlot: () => startSlot,
    checks: config.index && ctx.roles.has('api') ? [createTreeCheck(store, config.trees)] : [],
    routes: [treesRoute(store)],
    commands: [
      ...snapshotCommands({ config, hashing, random, clock, gaps, chain, reader, genesisHash, processor: PROCESSOR }),
      verifyCommand({ hashing, reader }),
    ],
    async start() {
      startSlot = await firstStart(store.read as Db, config.startSlot);
      if (!works) return;
      watch.start();
      keeper.start();
    },
    async stop(signal) {
      await watch.stop();
      await keeper.stop(works ? signal : null);
    },
  };
}

/** First slots with an account, by genesis hash: before them there is nothing to be read. */
const FIRST_SLOTS: Readonly<Record<string, number>> = {
  '5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d': 286_193_745,
  EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG: 319_998_225,
};

/** The configured slot, or what a snapshot goes on with; undefined to begin where the chain is first followed. */
async function firstStart(db: Db, configured: CompressionConfig['startSlot']): Promise<number | undefined> {
  if (typeof configured === 'number') return configured;
  const slot = configured === 'latest' ? null : await readNote(db, NOTES.snapshotSlot);
  return slot === null ? undefined : Number(slot) + 1;
}

interface ChainWatchParts {
  readonly store: Store;
  /** Null without an upstream. */
  readonly chain: ChainReader | null;
  readonly refresh: RefreshParts | null;
  /** Looked through one after the other while we are near the tip. */
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
/** Nearer to the tip than this the accounts of the chain can be compared with the rows. */
const NEAR_TIP = { seconds: 8, slots: null };

/** In `tree_status`. */
const STATUS_VALUE: Readonly<Record<string, number>> = { ok: 0, unverified: 1, gap: 2, diverged: 3 };

/** Looks after the trees beside the indexing: their accounts, their roots, and those that are refused. */
function createChainWatch(parts: ChainWatchParts): ChainWatch {
  const { chain, refresh, checks, repairs, clock, log } = parts;
  const repeats = createRepeats(clock, log);
  const tell = createTreeMetrics(parts);

  async function look(signal: AbortSignal): Promise<number> {
    await tell();
    const status = chain?.status() ?? null;
    // Whoever writes the blocks also looks after their trees.
    const isNear =
      status !== null && status.isStandby !== true && status.lagSlots !== null && !isLagBeyond(status, NEAR_TIP);
    try {
      if (isNear) for (const check of checks) await check?.pass(signal);
    } finally {
      // Trees that a node says nothing of at the moment do not hold up the others.
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
      repeats.add('looking after the trees', FIRST_CHECK_MS, CHECK_MS, look);
    },
    stop: repeats.stop,
  };
}

/** There may be very many trees of compressed NFTs. */
const MOST_TOLD = 1_000;

/** State and sequence number of each tree. */
function createTreeMetrics({ store, metrics }: ChainWatchParts): () => Promise<void> {
  const status = metrics.gauge(
    'tree_status',
    'state of a tree: 0 ok, 1 unverified, 2 updates are missing, 3 diverged',
    ['tree'],
  );
  const seq = metrics.gauge('tree_seq', 'sequence number up to which a tree is indexed', ['tree']);
  return async () => {
    const rows = await (store.read as Db)
      .selectFrom('compression_trees')
      .select(['key', 'status', 'seq'])
      .orderBy('id')
      .limit(MOST_TOLD)
      .execute();
    for (const row of rows) {
      const name = encode32(row.key);
      status.with(name).set(STATUS_VALUE[row.status] ?? STATUS_VALUE['diverged'] ?? 0);
      seq.with(name).set(row.seq);
    }
  };
}

const MOST_NAMED = 3;

/** Fails while proofs of a tree that every client knows are refused; those of other trees are their users' matter. */
function createTreeCheck(store: Store, declared: readonly DeclaredTree[]): HealthCheck {
  const own = new Set(declared.map(({ tree }) => tree));
  const keys = knownTrees(declared)
    .map(({ key }) => key)
    .filter((key) => !own.has(encode32(key)));
  return {
    name: 'compression trees',
    async run() {
      const rows = await (store.read as Db)
        .selectFrom('compression_trees')
        .select(['key', 'status', 'seq'])
        .where('key', 'in', keys)
        .where('status', 'in', ['gap', 'diverged'])
        .orderBy('id')
        .execute();
      if (rows.length === 0) return { ok: true, detail: 'no proofs are withheld' };
      const named = rows.slice(0, MOST_NAMED).map(({ key, status, seq }) => `${encode32(key)} (${status} at ${seq})`);
      const more = rows.length > MOST_NAMED ? ` and ${rows.length - MOST_NAMED} more` : '';
      return { ok: false, detail: `proofs are withheld of ${named.join(', ')}${more}` };
    },
  };
}

const MOST_TREES = 1_000;
const nullable = (description: string) => Type.Union([Type.String(), Type.Null()], { description });

const treeState = Type.Object({
  tree: Type.String(),
  queue: nullable('base58'),
  type: Type.Integer({ description: '1 state V1, 2 address V1, 3 state V2, 4 address V2, 5 compressed NFTs' }),
  size: Type.Integer({ description: 'leaves' }),
  root: Type.String(),
  rootSeq: Type.Integer(),
  state: Type.String({ description: 'ok, unverified, gap or diverged; proofs of the last two are withheld' }),
  reason: nullable('why it is not ok'),
  expectedRoot: nullable('what the chain has where we differ'),
  computedRoot: nullable('what we have there'),
  verifiedSeq: Type.Union([Type.Integer(), Type.Null()], { description: 'newest root that was found on the chain' }),
  lag: Type.Union([Type.Integer(), Type.Null()], { description: 'slots since then' }),
});

/** `GET /v0/admin/compression/trees`: how the trees stand. */
function treesRoute(store: Store): Route {
  return defineRoute({
    method: 'GET',
    path: '/v0/admin/compression/trees',
    summary: 'State of the Merkle trees of compressed accounts',
    tag: 'Operation',
    auth: 'admin',
    errors: 'plain',
    replies: { 200: Type.Object({ slot: Type.Integer(), trees: Type.Array(treeState) }) },
    async handler() {
      const { slot, value } = await readAtOneSlot(store, (db) => readTrees(db));
      return json({ slot, trees: value.map((row) => viewOf(row, slot)) });
    },
  });
}

const readTrees = (db: Db): Promise<TreeRow[]> =>
  db.selectFrom('compression_trees').selectAll().orderBy('id').limit(MOST_TREES).execute();

const text = (bytes: Uint8Array | null) => (bytes === null ? null : encode32(bytes));

const viewOf = (row: TreeRow, slot: number) => ({
  ...{ tree: encode32(row.key), queue: text(row.queue), type: row.type, size: row.next_index },
  ...{ root: encode32(row.root), rootSeq: row.seq, state: row.status, reason: row.reason },
  ...{ expectedRoot: text(row.expected_root), computedRoot: text(row.computed_root) },
  ...{ verifiedSeq: row.verified_seq, lag: row.verified_slot === null ? null : Math.max(0, slot - row.verified_slot) },
});
