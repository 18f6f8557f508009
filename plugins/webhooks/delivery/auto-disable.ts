import type { Clock } from '../../../src/ports/clock.ts';
import type { StoreTx } from '../../../src/ports/store.ts';
import type { Log } from '../../../src/ports/telemetry.ts';
import type { WebhooksConfig } from '../config.ts';
import type { DisabledReason, Webhook } from '../model.ts';
import type { Alerts } from '../operational.ts';
import { beginChange, recordChange } from '../store/changes.ts';
import { MINUTE_MS, sumHealth } from '../store/health.ts';
import { hooksByNumber, updateHook } from '../store/hooks.ts';
import type { WebhookDb } from '../store/tables.ts';
import type { Suspect } from './outcomes.ts';

export interface AutoDisableParts {
  readonly clock: Clock;
  readonly log: Log;
  readonly rules: WebhooksConfig['autoDisable'];
  /** Drops or holds the waiting deliveries. */
  becameInactive(tx: StoreTx, hook: Webhook): Promise<void>;
  readonly alerts: Pick<Alerts, 'disabled'>;
  /** Called after the commit, once per transition. */
  disabled(reason: DisabledReason): void;
}

const HOUR_MINUTES = 60;

/** Disables webhooks whose receiver fails at a high rate or is gone; never within a grace. */
export async function disableFailing(
  parts: AutoDisableParts,
  tx: StoreTx,
  suspects: readonly Suspect[],
): Promise<void> {
  const db = tx.db as WebhookDb;
  for (const suspect of suspects) {
    const now = parts.clock.now();
    const { number } = suspect.hook;
    if ((await mayDisable(db, number, now)) === null) continue;
    const reason = suspect.gone ? 'gone' : await failureReason(parts, db, number, now);
    if (reason === null) continue;
    const version = await beginChange(tx);
    await recordChange(tx, { version, number, removed: [], added: [] }, now);
    // Checked again under the lock of all changes: the webhook may have been toggled since.
    const hook = await mayDisable(db, number, now);
    if (hook === null) continue;
    await updateHook(db, number, {
      active: false,
      disabledReason: reason,
      disabledAt: now,
      graceUntil: null,
      updatedAt: now,
    });
    await parts.becameInactive(tx, hook);
    await parts.alerts.disabled(tx, hook, reason);
    tx.onCommit(() => {
      parts.log.warn({ webhook: hook.id, reason }, 'webhook disabled');
      parts.disabled(reason);
    });
  }
}

/** The webhook; null when it is off or in its grace. */
async function mayDisable(db: WebhookDb, number: number, now: number): Promise<Webhook | null> {
  const [hook] = await hooksByNumber(db, [number]);
  const isExempt = hook === undefined || !hook.active || (hook.graceUntil !== null && now < hook.graceUntil);
  return isExempt ? null : hook;
}

async function failureReason(
  { rules }: AutoDisableParts,
  db: WebhookDb,
  number: number,
  now: number,
): Promise<DisabledReason | null> {
  if (!rules.enabled) return null;
  const minute = Math.floor(now / MINUTE_MS);
  const window = await sumHealth(db, number, minute - rules.windowMinutes + 1);
  const finished = window.succeeded + window.failed;
  const failing = finished >= rules.minFinished && window.failed / finished >= rules.failureRate;
  if (failing && now - window.lastSuccessAt >= rules.quietMinutes * MINUTE_MS) return 'failure_rate';
  // Durable retries finish only after hours: a receiver that is down for a day shows in the attempts.
  const day = await sumHealth(db, number, minute - rules.silentHours * HOUR_MINUTES + 1);
  const silent = day.attemptsOk === 0 && day.attemptsFailed >= rules.minFinished;
  return silent && (await firstAttemptMinute(db, number)) <= minute - rules.silentHours * HOUR_MINUTES + 1
    ? 'failure_rate'
    : null;
}

/** Only a record of the whole period can show that every attempt in it failed. */
async function firstAttemptMinute(db: WebhookDb, number: number): Promise<number> {
  const row = await db
    .selectFrom('webhook_health')
    .select((of) => of.fn.min('minute').as('minute'))
    .where('number', '=', number)
    .executeTakeFirst();
  return Number(row?.minute ?? Number.MAX_SAFE_INTEGER);
}
