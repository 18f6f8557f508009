import type { Clock } from '../../../src/ports/clock.ts';
import type { Log } from '../../../src/ports/log.ts';
import type { StoreTx } from '../../../src/ports/store.ts';
import type { WebhooksConfig } from '../config.ts';
import type { DisabledReason, Webhook } from '../model.ts';
import type { Alerts } from '../operational.ts';
import { beginChange, recordChange } from '../store/changes.ts';
import { MINUTE_MS, sumHealth } from '../store/health.ts';
import { hooksByNumber, updateHook } from '../store/hooks.ts';
import type { Db } from '../store/tables.ts';
import type { Suspect } from './outcomes.ts';

export interface AutoDisableParts {
  readonly clock: Clock;
  readonly log: Log;
  readonly rules: WebhooksConfig['autoDisable'];
  /** What becomes of the deliveries that wait. */
  becameInactive(tx: StoreTx, hook: Webhook): Promise<void>;
  readonly alerts: Pick<Alerts, 'disabled'>;
  /** After the commit, once per transition. */
  disabled(reason: DisabledReason): void;
}

const HOUR_MINUTES = 60;

/** Switches off the webhooks whose endpoint fails at a high rate or is gone; within a grace never. */
export async function disableFailing(
  parts: AutoDisableParts,
  tx: StoreTx,
  suspects: readonly Suspect[],
): Promise<void> {
  const db = tx.db as Db;
  for (const suspect of suspects) {
    const now = parts.clock.now();
    const { number } = suspect.hook;
    if ((await mayDisable(db, number, now)) === null) continue;
    const reason = suspect.gone ? 'gone' : await failureReason(parts, db, number, now);
    if (reason === null) continue;
    const version = await beginChange(tx);
    await recordChange(tx, { version, number, removed: [], added: [] }, now);
    // Asked again behind the lock of all changes: somebody may have switched it off and on meanwhile.
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

/** The webhook as it is, unless it is off or in its grace. */
async function mayDisable(db: Db, number: number, now: number): Promise<Webhook | null> {
  const [hook] = await hooksByNumber(db, [number]);
  const isExempt = hook === undefined || !hook.active || (hook.graceUntil !== null && now < hook.graceUntil);
  return isExempt ? null : hook;
}

async function failureReason(
  { rules }: AutoDisableParts,
  db: Db,
  number: number,
  now: number,
): Promise<DisabledReason | null> {
  if (!rules.enabled) return null;
  const minute = Math.floor(now / MINUTE_MS);
  const window = await sumHealth(db, number, minute - rules.windowMinutes + 1);
  const finished = window.succeeded + window.failed;
  const failing = finished >= rules.minFinished && window.failed / finished >= rules.failureRate;
  if (failing && now - window.lastSuccessAt >= rules.quietMinutes * MINUTE_MS) return 'failure_rate';
  // Patient retries finish only after hours: a receiver that is dead for a day shows in its attempts.
  const day = await sumHealth(db, number, minute - rules.silentHours * HOUR_MINUTES + 1);
  const silent = day.attemptsOk === 0 && day.attemptsFailed >= rules.minFinished;
  return silent && (await firstAttemptMinute(db, number)) <= minute - rules.silentHours * HOUR_MINUTES + 1
    ? 'failure_rate'
    : null;
}

/** Only a record that covers the whole time can say that all of it failed. */
async function firstAttemptMinute(db: Db, number: number): Promise<number> {
  const row = await db
    .selectFrom('webhook_health')
    .select((of) => of.fn.min('minute').as('minute'))
    .where('number', '=', number)
    .executeTakeFirst();
  return Number(row?.minute ?? Number.MAX_SAFE_INTEGER);
}
