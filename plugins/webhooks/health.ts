import { sql } from 'kysely';
import type { DeliveryQueue } from './delivery/queue.ts';
import { type DisabledReason, isoTime, type Webhook } from './model.ts';
import { HEALTH_DAYS, type HealthDay, MINUTE_MS, readDays, recentAttempts } from './store/health.ts';
import { hooksByNumber, hooksSwitchedOff } from './store/hooks.ts';
import type { WebhookDb } from './store/tables.ts';

/** How the deliveries of a webhook go. `failing`: most attempts of the last hour, or if there were none of the last day, failed. */
export const HEALTH_STATES = ['working', 'failing', 'idle', 'off'] as const;
export type HealthState = (typeof HEALTH_STATES)[number];

const HOUR_MINUTES = 60;
const DAY_MINUTES = 24 * HOUR_MINUTES;
const DAY_MS = DAY_MINUTES * MINUTE_MS;

interface Attempts {
  readonly ok: number;
  readonly failed: number;
}
const NONE: Attempts = { ok: 0, failed: 0 };

function healthState(active: boolean, hour: Attempts, day: Attempts): HealthState {
  if (!active) return 'off';
  const { ok, failed } = hour.ok + hour.failed > 0 ? hour : day;
  if (ok + failed === 0) return 'idle';
  return failed > ok ? 'failing' : 'working';
}

/** What the API shows of a webhook's health; times are ISO 8601. */
export interface HealthView {
  readonly webhookID: string;
  readonly state: HealthState;
  /** Only of a webhook that is off. */
  readonly disabledReason?: DisabledReason;
  readonly disabledAt?: string;
  readonly attempts: { readonly succeeded: number; readonly failed: number };
  readonly successRate: number | null;
  readonly lastDeliveredAt: string | null;
  readonly waiting: number;
  readonly held: number;
  readonly nextAttemptAt: string | null;
  readonly days: readonly { readonly day: string; readonly succeeded: number; readonly failed: number }[];
}

/** The health of these webhooks as the API shows it, in their order; four statements for any number of them. */
export async function healthViews(
  db: WebhookDb,
  queue: Pick<DeliveryQueue, 'unfinishedOf'>,
  hooks: readonly Webhook[],
  now: number,
): Promise<readonly HealthView[]> {
  const numbers = hooks.map(({ number }) => number);
  const minute = Math.floor(now / MINUTE_MS);
  const today = Math.floor(now / DAY_MS);
  const [days, lastDay, lastHour, unfinished] = await Promise.all([
    readDays(db, numbers, today - HEALTH_DAYS + 1),
    recentAttempts(db, numbers, minute - DAY_MINUTES + 1),
    recentAttempts(db, numbers, minute - HOUR_MINUTES + 1),
    queue.unfinishedOf(hooks.map(({ id }) => id)),
  ]);
  return hooks.map((hook) => {
    const day = lastDay.get(hook.number) ?? NONE;
    const known = days.get(hook.number) ?? [];
    const { waiting, held, nextAt } = unfinished.get(hook.id) ?? { waiting: 0, held: 0, nextAt: null };
    const lastSuccessAt = Math.max(0, ...known.map((one) => one.lastSuccessAt));
    return {
      webhookID: hook.id,
      state: healthState(hook.active, lastHour.get(hook.number) ?? NONE, day),
      ...(hook.disabledReason === null ? {} : { disabledReason: hook.disabledReason }),
      ...(hook.disabledAt === null ? {} : { disabledAt: isoTime(hook.disabledAt) }),
      attempts: { succeeded: day.ok, failed: day.failed },
      successRate: day.ok + day.failed === 0 ? null : day.ok / (day.ok + day.failed),
      lastDeliveredAt: lastSuccessAt === 0 ? null : isoTime(lastSuccessAt),
      waiting,
      held,
      nextAttemptAt: nextAt === null ? null : isoTime(nextAt),
      days: allDays(known, today),
    };
  });
}

/** Days without an attempt have zeros. */
function allDays(known: readonly HealthDay[], today: number): HealthView['days'] {
  const byDay = new Map(known.map((one) => [one.day, one]));
  return Array.from({ length: HEALTH_DAYS }, (_, at) => {
    const day = today - HEALTH_DAYS + 1 + at;
    const one = byDay.get(day);
    return {
      day: isoTime(day * DAY_MS).slice(0, 10),
      succeeded: one?.attemptsOk ?? 0,
      failed: one?.attemptsFailed ?? 0,
    };
  });
}

/** A webhook whose deliveries fail, or that is off because they failed, for the operator. */
export interface FailingHook {
  readonly hook: Webhook;
  readonly attempts: Attempts;
}

/** So many days an operator sees a webhook that the daemon switched off: its owner may never come back. */
export const SHOWN_OFF_DAYS = 7;

/**
 * Webhooks of all projects that the daemon switched off in the last days, the newest first; then those that are on and failing by the
 * attempts of the last hour, the most failed attempts first.
 */
export async function failingHooks(db: WebhookDb, now: number, most: number): Promise<readonly FailingHook[]> {
  const off = await hooksSwitchedOff(db, now - SHOWN_OFF_DAYS * DAY_MS, most);
  const failing = await failingNow(db, now);
  return [...off.map((hook) => ({ hook, attempts: NONE })), ...failing].slice(0, most);
}

async function failingNow(db: WebhookDb, now: number): Promise<readonly FailingHook[]> {
  const since = Math.floor(now / MINUTE_MS) - HOUR_MINUTES + 1;
  const rows = await db
    .selectFrom('webhook_health')
    .select((of) => ['number', of.fn.sum('attempts_ok').as('ok'), of.fn.sum('attempts_failed').as('failed')])
    .where('minute', '>=', since)
    .groupBy('number')
    .having(sql<boolean>`sum(attempts_failed) > sum(attempts_ok)`)
    .execute();
  const attempts = new Map(rows.map((row) => [row.number, { ok: Number(row.ok), failed: Number(row.failed) }]));
  const hooks = await hooksByNumber(db, [...attempts.keys()]);
  return hooks
    .filter(({ active }) => active)
    .map((hook) => ({ hook, attempts: attempts.get(hook.number) ?? NONE }))
    .sort((a, b) => b.attempts.failed - a.attempts.failed);
}

/** How the attempts of the last hour of a webhook that is on went; `quiet`: there were none. */
export const HOUR_STATES = ['working', 'failing', 'quiet', 'off'] as const;

/** The number of webhooks of all projects in each state. */
export async function countHourStates(
  db: WebhookDb,
  now: number,
): Promise<Readonly<Record<(typeof HOUR_STATES)[number], number>>> {
  const since = Math.floor(now / MINUTE_MS) - HOUR_MINUTES + 1;
  const failing = sql<number>`sum(CASE WHEN hour.failed > hour.ok THEN 1 ELSE 0 END)`;
  const row = await db
    .selectFrom('webhooks')
    .leftJoin(
      db
        .selectFrom('webhook_health')
        .select((of) => ['number', of.fn.sum('attempts_ok').as('ok'), of.fn.sum('attempts_failed').as('failed')])
        .where('minute', '>=', since)
        .groupBy('number')
        .as('hour'),
      'hour.number',
      'webhooks.number',
    )
    .select((of) => [
      'active',
      of.fn.countAll().as('all'),
      of.fn.count('hour.number').as('tried'),
      failing.as('failing'),
    ])
    .groupBy('active')
    .execute();
  const on = row.find(({ active }) => active === 1);
  const [all, tried, failed] = [Number(on?.all ?? 0), Number(on?.tried ?? 0), Number(on?.failing ?? 0)];
  const off = Number(row.find(({ active }) => active !== 1)?.all ?? 0);
  return { working: tried - failed, failing: failed, quiet: all - tried, off };
}
