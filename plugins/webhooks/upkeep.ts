import type { ChainId } from '../../src/ports/chain.ts';
import type { Clock } from '../../src/ports/clock.ts';
import type { Log } from '../../src/ports/log.ts';
import type { Outbox } from '../../src/ports/outbox.ts';
import type { Roles } from '../../src/ports/role.ts';
import type { Store, StoreTx } from '../../src/ports/store.ts';
import type { WebhooksConfig } from './config.ts';
import { deliveryKind, signatureOfKey } from './delivery/payload.ts';
import type { DeliveryQueue } from './delivery/queue.ts';
import type { Depth } from './match/depth.ts';
import { removeAttempts } from './store/attempts.ts';
import { releaseRefs } from './store/blobs.ts';
import { CHANGES_KEPT_MS, pruneChanges } from './store/changes.ts';
import { MINUTE_MS, pruneHealth } from './store/health.ts';
import type { Db } from './store/tables.ts';

export interface UpkeepParts {
  readonly store: Store;
  readonly outbox: Outbox;
  readonly queue: DeliveryQueue;
  readonly depth: Depth;
  readonly chains: readonly ChainId[];
  readonly clock: Clock;
  readonly log: Log;
  readonly config: WebhooksConfig;
}

export interface Upkeep {
  start(roles: Roles): void;
  stop(): void;
  /** Forgets what is old enough; in small transactions, so that writers get in between. */
  prune(): Promise<void>;
}

const COUNT_MS = 10_000;
const RECOUNT_MS = 300_000;
const PRUNE_MS = 600_000;
const PRUNE_BATCH = 1_000;
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const HOUR_MINUTES = 60;

/** Counts what waits, and removes old deliveries with their attempts and elements. */
export function createUpkeep(parts: UpkeepParts): Upkeep {
  const { store, clock, log, config, queue, depth } = parts;
  let stopped = false;
  const cancels = new Set<() => void>();

  const repeat = (everyMs: number, what: string, work: () => Promise<void>): void => {
    const cancel = clock.timeout(everyMs, async () => {
      cancels.delete(cancel);
      await work().catch((error: unknown) => log.warn({ err: error }, `${what} failed`));
      if (!stopped) repeat(everyMs, what, work);
    });
    cancels.add(cancel);
  };
  let countedAt = Number.NEGATIVE_INFINITY;
  /** Between counts the depth only grows, so far from the bound an old count is good enough: counting reads the whole outbox. */
  const count = async (): Promise<void> => {
    const now = clock.monotonic();
    if (depth.value() < config.outbox.maxRows / 2 && now - countedAt < RECOUNT_MS) return;
    countedAt = now;
    depth.counted(await queue.depth(config.outbox.maxRows));
  };
  const prune = async (): Promise<void> => {
    const now = clock.now();
    for (const chain of parts.chains) {
      for (const state of ['done', 'failed', 'discarded'] as const) {
        const keptMs =
          state === 'done' ? config.retention.succeededHours * HOUR_MS : config.retention.failedDays * DAY_MS;
        let removed = PRUNE_BATCH;
        while (removed === PRUNE_BATCH && !stopped) {
          removed = await store.write((tx) => pruneBatch(parts, tx, chain, state, now - keptMs));
        }
      }
    }
    // Twice the longest window, so that a webhook that fails for longer than it still has a first record.
    const keptMinutes = Math.max(config.autoDisable.windowMinutes, 2 * config.autoDisable.silentHours * HOUR_MINUTES);
    await store.write(async (tx) => {
      await pruneChanges(tx.db as Db, now - CHANGES_KEPT_MS);
      await pruneHealth(tx.db as Db, Math.floor(now / MINUTE_MS) - keptMinutes);
    });
  };

  return {
    start(roles) {
      // Whoever follows the chain has to know how much waits, and whoever delivers clears up.
      if (roles.has('indexer')) repeat(COUNT_MS, 'counting deliveries', count);
      if (roles.has('deliverer')) repeat(PRUNE_MS, 'pruning deliveries', prune);
    },
    stop() {
      stopped = true;
      for (const cancel of cancels) cancel();
    },
    prune,
  };
}

async function pruneBatch(
  { outbox }: UpkeepParts,
  tx: StoreTx,
  chain: ChainId,
  state: 'done' | 'failed' | 'discarded',
  finishedBefore: number,
): Promise<number> {
  const rows = await outbox.prune(tx, { kind: deliveryKind(chain), state, finishedBefore, limit: PRUNE_BATCH });
  await removeAttempts(
    tx.db as Db,
    rows.map(({ id }) => id),
  );
  await releaseRefs(
    tx,
    chain,
    rows.map(({ key }) => signatureOfKey(key)),
  );
  return rows.length;
}
