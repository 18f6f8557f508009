import { sql } from 'kysely';
import type { ChainId } from '../../../src/ports/chain.ts';
import type { Clock } from '../../../src/ports/clock.ts';
import type { Outbox } from '../../../src/ports/outbox.ts';
import type { Store, StoreTx } from '../../../src/ports/store.ts';
import type { WebhooksConfig } from '../config.ts';
import { deliveryKind, signatureOfKey } from '../delivery/payload.ts';
import { removeAttempts } from '../store/attempts.ts';
import { forgetSent } from '../store/batches.ts';
import { releaseRefs } from '../store/blobs.ts';
import { CHANGES_KEPT_MS, pruneChanges } from '../store/changes.ts';
import { MINUTE_MS, pruneHealth } from '../store/health.ts';
import type { Db } from '../store/tables.ts';

export interface PruneParts {
  readonly store: Store;
  readonly outbox: Outbox;
  readonly chains: readonly ChainId[];
  readonly clock: Clock;
  readonly config: WebhooksConfig;
  isStopped(): boolean;
}

const BATCH = 1_000;
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const HOUR_MINUTES = 60;

/** Forgets what is old enough; in small transactions, so that writers get in between. */
export async function prune(parts: PruneParts): Promise<void> {
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
  // Twice the longest window, so that a webhook that fails for longer than it still has a first record.
  const keptMinutes = Math.max(config.autoDisable.windowMinutes, 2 * config.autoDisable.silentHours * HOUR_MINUTES);
  await store.write(async (tx) => {
    await pruneChanges(tx.db as Db, now - CHANGES_KEPT_MS);
    await pruneHealth(tx.db as Db, Math.floor(now / MINUTE_MS) - keptMinutes);
    const replays = (tx.db as Db).deleteFrom('webhook_replays');
    await replays.where('finished_at', '<', now - config.retention.failedDays * DAY_MS).execute();
  });
}

async function repeat({ store, isStopped }: PruneParts, work: (tx: StoreTx) => Promise<number>): Promise<void> {
  let removed = BATCH;
  while (removed === BATCH && !isStopped()) removed = await store.write(work);
}

async function pruneBatch(
  { outbox }: PruneParts,
  tx: StoreTx,
  chain: ChainId,
  state: 'done' | 'failed' | 'discarded',
  finishedBefore: number,
): Promise<number> {
  const rows = await outbox.prune(tx, { kind: deliveryKind(chain), state, finishedBefore, limit: BATCH });
  const ids = rows.map(({ id }) => id);
  await removeAttempts(tx.db as Db, ids);
  await forgetSent(tx, ids);
  await releaseRefs(
    tx,
    chain,
    rows.map(({ key }) => signatureOfKey(key)),
  );
  return rows.length;
}

/** Attempts beyond the bounds of a webhook, and of a delivery that was sent again and again, are dropped, the oldest first. */
async function pruneAttempts(parts: PruneParts): Promise<void> {
  const { attemptsPerWebhook, attemptsPerDelivery } = parts.config.retention;
  const numbers = await (parts.store.read as Db).selectFrom('webhooks').select('number').execute();
  for (const { number } of numbers) {
    if (parts.isStopped()) return;
    const last = await (parts.store.read as Db)
      .selectFrom('webhook_attempts')
      .select('started_at')
      .where('number', '=', number)
      .orderBy('started_at', 'desc')
      .offset(attemptsPerWebhook)
      .limit(1)
      .executeTakeFirst();
    if (last === undefined) continue;
    await parts.store.write(async (tx) => {
      const old = (tx.db as Db).deleteFrom('webhook_attempts').where('number', '=', number);
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
