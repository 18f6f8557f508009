import type { ChainReader, Clock, Log, Metrics, Store } from '../../../src/kernel/plugin.ts';
import { encode32 } from '../../../src/lib/base58.ts';
import type { Db } from '../store/tables.ts';
import { type RefreshParts, refreshTrees } from './refresh.ts';
import type { Repair } from './repair.ts';
import { createRepeats } from './repeat.ts';
import type { RootCheck } from './root-check.ts';

export interface ChainWatchParts {
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

export interface ChainWatch {
  start(): void;
  stop(): Promise<void>;
}

const CHECK_MS = 5_000;
const FIRST_CHECK_MS = 1_000;
const REFRESH_MS = 3_600_000;
const REFRESH_RETRY_MS = 30_000;
const MOST_LAG_SLOTS = 20;

/** In `tree_status`. */
const STATUS_VALUE: Readonly<Record<string, number>> = { ok: 0, unverified: 1, gap: 2, diverged: 3 };

/** Looks after the trees beside the indexing: their accounts, their roots, and those that are refused. */
export function createChainWatch(parts: ChainWatchParts): ChainWatch {
  const { chain, refresh, checks, repairs, clock, log } = parts;
  const repeats = createRepeats(clock, log);
  const tell = createTreeMetrics(parts);

  async function look(signal: AbortSignal): Promise<number> {
    await tell();
    const { lagSlots = null, isStandby = false } = chain?.status() ?? {};
    // Whoever writes the blocks also looks after their trees.
    const isNear = !isStandby && lagSlots !== null && lagSlots <= MOST_LAG_SLOTS;
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
