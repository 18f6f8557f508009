import { sql } from 'kysely';
import type { AccessCharges } from '../../src/ports/access.ts';
import type { ChainId } from '../../src/ports/chain.ts';
import type { Clock } from '../../src/ports/clock.ts';
import type { Roles } from '../../src/ports/daemon-view.ts';
import type { Store, StoreTx } from '../../src/ports/store.ts';
import type { Log } from '../../src/ports/telemetry.ts';
import type { WebhooksConfig } from './config.ts';
import { type AutoDisableParts, disableFailing } from './delivery/auto-disable.ts';
import type { DeliveryQueue } from './delivery/queue.ts';
import { countHourStates } from './health.ts';
import type { Depth } from './match.ts';
import { REASONS } from './model.ts';
import type { GapAlerts, StallAlerts } from './operational.ts';
import type { HookReplays } from './replay.ts';
import { CHANGES_KEPT_MS, pruneChanges } from './store/changes.ts';
import { endBatches, forgetSent, oldLeaders, readBatches, releaseRefs, removeAttempts } from './store/deliveries.ts';
import { endPause, MINUTE_MS, pausedProjects, pruneHealth } from './store/health.ts';
import { hooksByNumber, listHooks } from './store/hooks.ts';
import type { WebhookDb } from './store/tables.ts';

interface UpkeepParts extends HeldParts, PauseParts {
  readonly depth: Depth;
  readonly log: Log;
  readonly autoDisable: AutoDisableParts;
  readonly replays: Pick<HookReplays, 'finish'> | null;
  readonly gapAlerts: GapAlerts | null;
  readonly stallAlerts: StallAlerts;
  /** Looks again whether any project wants to be told. */
  refreshOwners(): Promise<void>;
  /** Reports the number of webhooks by state. */
  counted(states: Awaited<ReturnType<typeof countHourStates>>): void;
}

interface Upkeep {
  start(roles: Roles): void;
  stop(): void;
}

const COUNT_MS = 10_000;
const PRUNE_MS = 600_000;
const PAUSES_MS = 5_000;
const STALLS_MS = 2_000;

/** Timers of the plugin: counts waiting deliveries, prunes, ends pauses, and disables webhooks whose last success is too old. */
export function createWebhookUpkeep(parts: UpkeepParts): Upkeep {
  const { clock, log, config, queue, depth } = parts;
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
  /** Reads only the indexes of unfinished rows, up to the limit. */
  const count = async (): Promise<void> => {
    depth.counted(await queue.depth(config.outbox.maxRows));
    await parts.refreshOwners();
  };
  const countStates = async (): Promise<void> =>
    parts.counted(await countHourStates(parts.store.read as WebhookDb, clock.now()));
  const everyMinute = async (): Promise<void> => {
    await maintainHeld(parts);
    await checkRates(parts);
    await countStates();
    await parts.replays?.finish();
    await parts.gapAlerts?.check();
  };

  return {
    start(roles) {
      // The follower needs the number of waiting deliveries at once, and all roles report it.
      void count().catch((error: unknown) => log.warn({ err: error }, 'counting deliveries failed'));
      repeat(COUNT_MS, 'counting deliveries', count);
      if (!roles.has('deliverer')) return;
      void countStates().catch((error: unknown) => log.warn({ err: error }, 'counting webhooks failed'));
      repeat(PRUNE_MS, 'pruning deliveries', () => prune({ ...parts, isStopped: () => stopped }));
      repeat(PAUSES_MS, 'checking paused projects', () => endPauses(parts));
      repeat(STALLS_MS, 'checking for stalls', parts.stallAlerts.check);
      repeat(MINUTE_MS, 'checking held deliveries and failing webhooks', everyMinute);
    },
    stop() {
      stopped = true;
      for (const cancel of cancels) cancel();
    },
  };
}

/** Time alone can disable a webhook: when its last success becomes too old. */
async function checkRates({ store, clock, autoDisable }: UpkeepParts): Promise<void> {
  const { rules } = autoDisable;
  if (!rules.enabled) return;
  const since = Math.floor(clock.now() / MINUTE_MS) - rules.windowMinutes + 1;
  const failing = await (store.read as WebhookDb)
    .selectFrom('webhook_health')
    .select('number')
    .where('minute', '>=', since)
    .groupBy('number')
    .having(sql<boolean>`sum(failed) >= ${rules.minFinished * rules.failureRate}`)
    .execute();
  const hooks = await hooksByNumber(
    store.read as WebhookDb,
    failing.map(({ number }) => number),
  );
  for (const hook of hooks) {
    if (hook.active) await store.write((tx) => disableFailing(autoDisable, tx, [{ hook, gone: false }]));
  }
}

interface HeldParts {
  readonly store: Store;
  readonly queue: DeliveryQueue;
  readonly chains: readonly ChainId[];
  readonly clock: Clock;
  readonly config: WebhooksConfig;
}

const HOUR_MS = 3_600_000;
/** Longer than any transaction or attempt in flight at a change. */
const RECENT_MS = 600_000;
const BATCH = 1_000;

/** Discards held deliveries that are too old; releases those whose hold reason has ended. */
async function maintainHeld(parts: HeldParts): Promise<void> {
  await dropOld(parts);
  await releaseLeft(parts);
  await releaseOrphans(parts);
}

async function dropOld({ store, queue, clock, config }: HeldParts): Promise<void> {
  const off = (store.read as WebhookDb).selectFrom('webhooks').select('id').where('active', '=', 0);
  const createdBefore = clock.now() - config.hold.ttlHours * HOUR_MS;
  for (const { id } of await off.where('on_inactive', '=', 'hold').execute()) {
    const drop = (tx: StoreTx) => queue.discardHeld(tx, id, { limit: BATCH, createdBefore }, REASONS.heldTooLong);
    let dropped = BATCH;
    while (dropped === BATCH) dropped = await store.write(drop);
  }
}

/** An attempt or a block that started while a webhook was off can hold its delivery after the webhook was switched on. */
async function releaseLeft({ store, queue, clock }: HeldParts): Promise<void> {
  const on = (store.read as WebhookDb).selectFrom('webhooks').select('id').where('active', '=', 1);
  for (const { id } of await on.where('updated_at', '>', clock.now() - RECENT_MS).execute()) {
    await store.write((tx) => queue.releaseHeld(tx, id, REASONS.inactive));
  }
}

/** Members whose leader finished without its batch, after its process died too often, are sent alone. */
async function releaseOrphans({ store, queue, clock }: HeldParts): Promise<void> {
  const leaders = await oldLeaders(store.read as WebhookDb, clock.now() - RECENT_MS, BATCH);
  if (leaders.length === 0) return;
  const alive = await queue.unfinished(leaders);
  const dead = leaders.filter((id) => !alive.has(id));
  if (dead.length === 0) return;
  await store.write(async (tx) => {
    const batches = [...(await readBatches(tx.db, tx.dialect, dead))];
    await queue.releaseMembers(tx, new Map(batches.map(([leader, members]) => [leader, members.map(({ id }) => id)])));
    await endBatches(tx, dead);
  });
}

interface PauseParts {
  readonly store: Store;
  readonly queue: DeliveryQueue;
  readonly charges: AccessCharges | null;
  readonly log: Log;
}

/** Releases deliveries of projects that have credits again. */
async function endPauses({ store, queue, charges, log }: PauseParts): Promise<void> {
  for (const projectId of await pausedProjects(store.read)) {
    if (charges !== null && (await charges.left(projectId)) < 1) continue;
    await store.write(async (tx) => {
      await endPause(tx, projectId);
      for (const { id } of await listHooks(tx.db as WebhookDb, projectId))
        await queue.releaseHeld(tx, id, REASONS.credits);
    });
    log.info({ project: projectId }, 'deliveries resumed: the project has credits and is not disabled');
  }
}

interface PruneParts {
  readonly store: Store;
  readonly queue: DeliveryQueue;
  readonly chains: readonly ChainId[];
  readonly clock: Clock;
  readonly config: WebhooksConfig;
  isStopped(): boolean;
}
const DAY_MS = 24 * HOUR_MS;
const HOUR_MINUTES = 60;

/** Deletes old rows in small transactions, so that other writers are not blocked. */
async function prune(parts: PruneParts): Promise<void> {
  const { store, clock, config } = parts;
  const now = clock.now();
  for (const chain of parts.chains) {
    for (const state of ['done', 'failed', 'discarded'] as const) {
      const keptMs =
        state === 'done' ? config.retention.succeededHours * HOUR_MS : config.retention.failedDays * DAY_MS;
      await repeat(parts, (tx) => pruneBatch(parts, tx, chain, state, now - keptMs));
    }
  }
  await pruneAttempts(parts);
  // Twice the longest window, so that a webhook that fails for longer still has an earlier record.
  const { windowMinutes, silentHours } = config.autoDisable;
  const keptMinutes = Math.max(windowMinutes, 2 * silentHours * HOUR_MINUTES, 24 * HOUR_MINUTES);
  await store.write(async (tx) => {
    await pruneChanges(tx.db as WebhookDb, now - CHANGES_KEPT_MS);
    await pruneHealth(tx.db as WebhookDb, Math.floor(now / MINUTE_MS) - keptMinutes, now);
    const replays = (tx.db as WebhookDb).deleteFrom('webhook_replays');
    await replays.where('finished_at', '<', now - config.retention.failedDays * DAY_MS).execute();
  });
}

async function repeat({ store, isStopped }: PruneParts, work: (tx: StoreTx) => Promise<number>): Promise<void> {
  let removed = BATCH;
  while (removed === BATCH && !isStopped()) removed = await store.write(work);
}

async function pruneBatch(
  { queue }: PruneParts,
  tx: StoreTx,
  chain: ChainId,
  state: 'done' | 'failed' | 'discarded',
  finishedBefore: number,
): Promise<number> {
  const rows = await queue.prune(tx, chain, { state, finishedBefore, limit: BATCH });
  const ids = rows.map(({ id }) => id);
  await removeAttempts(tx.db as WebhookDb, ids);
  await forgetSent(tx, ids);
  await releaseRefs(
    tx,
    rows.map(({ payload }) => payload),
  );
  return rows.length;
}

/** Deletes the oldest attempts beyond the limits of a webhook and of a delivery. */
async function pruneAttempts(parts: PruneParts): Promise<void> {
  const { attemptsPerWebhook, attemptsPerDelivery } = parts.config.retention;
  const numbers = await (parts.store.read as WebhookDb).selectFrom('webhooks').select('number').execute();
  for (const { number } of numbers) {
    if (parts.isStopped()) return;
    const last = await (parts.store.read as WebhookDb)
      .selectFrom('webhook_attempts')
      .select('started_at')
      .where('number', '=', number)
      .orderBy('started_at', 'desc')
      .offset(attemptsPerWebhook)
      .limit(1)
      .executeTakeFirst();
    if (last === undefined) continue;
    await parts.store.write(async (tx) => {
      const old = (tx.db as WebhookDb).deleteFrom('webhook_attempts').where('number', '=', number);
      await old.where('started_at', '<=', last.started_at).execute();
    });
  }
  await parts.store.write((tx) =>
    sql`DELETE FROM webhook_attempts WHERE (job_id, started_at, n) IN (
      SELECT job_id, started_at, n FROM (
        SELECT job_id, started_at, n, row_number() OVER (PARTITION BY job_id ORDER BY started_at DESC, n DESC) AS place
        FROM webhook_attempts WHERE job_id IN (
          SELECT job_id FROM webhook_attempts GROUP BY job_id HAVING count(*) > ${attemptsPerDelivery} LIMIT ${BATCH})
      ) AS numbered WHERE place > ${attemptsPerDelivery})`.execute(tx.db),
  );
}
