import { hash } from 'node:crypto';
import type { PluginContext, SettledJob } from '../../../src/plugin/plugin.ts';
import type { Clock, Random } from '../../../src/ports/clock.ts';
import type { Log } from '../../../src/ports/log.ts';
import type { StoreTx } from '../../../src/ports/store.ts';
import type { WebhooksConfig } from '../config.ts';
import type { Reports } from '../delivery/run.ts';
import { isoTime, type Webhook } from '../model/webhook.ts';
import type { Db } from '../store/tables.ts';

/** Tells the operator of webhooks that begin or cease to fail: each change once. */
export interface Alerts {
  /** Finished attempts, in the transaction that writes them. */
  note(tx: StoreTx, settled: readonly SettledJob[], reports: Pick<Reports, 'get'>): Promise<void>;
  /** The credits of a project are used up. */
  paused(tx: StoreTx, projectId: string): Promise<void>;
  /** A webhook was switched off by itself. */
  disabled(tx: StoreTx, hook: Webhook, reason: string): Promise<void>;
}

/** So many attempts of a delivery have to fail before its receiver counts as failing. */
const FAILING_ATTEMPTS = 4;
const EXHAUSTED_EVERY_MS = 3_600_000;

interface Change {
  readonly hook: Webhook;
  failing: boolean;
  recovered: boolean;
  exhausted: number;
}

export function createAlerts(operational: Operational, clock: Clock, log: Log): Alerts {
  return {
    async note(tx, settled, reports) {
      if (!operational.isOn) return;
      const changes = changesOf(settled, reports);
      if (changes.size === 0) return;
      const states = await readAlerts(tx, [...changes.keys()]);
      for (const [number, change] of changes) {
        const before = states.get(number) ?? { number, failingSince: null, exhausted: 0, exhaustedToldAt: 0 };
        const after = await tell(operational, tx, before, change, clock.now());
        if (after !== before) await writeAlert(tx, after);
      }
    },
    async paused(tx, projectId) {
      tx.onCommit(() => log.warn({ project: projectId }, 'deliveries wait: the credits of the project are used up'));
      await operational.tell(tx, 'webhook.paused', { project: projectId, reason: 'credits' });
    },
    disabled: (tx, hook, reason) =>
      operational.tell(tx, 'webhook.disabled', { webhookID: hook.id, project: hook.projectId, reason }),
  };
}

function changesOf(settled: readonly SettledJob[], reports: Pick<Reports, 'get'>): ReadonlyMap<number, Change> {
  const changes = new Map<number, Change>();
  for (const { job, outcome } of settled) {
    const report = reports.get(job.id);
    if (report === undefined) continue;
    const { hook, n, members } = report;
    const ok = outcome.kind === 'done';
    const gaveUp = outcome.kind === 'failed';
    const change = changes.get(hook.number) ?? { hook, failing: false, recovered: false, exhausted: 0 };
    if (ok) change.recovered = true;
    else if (n >= FAILING_ATTEMPTS) change.failing = true;
    if (gaveUp) change.exhausted += 1 + members.length;
    changes.set(hook.number, change);
  }
  return changes;
}

async function tell(
  operational: Operational,
  tx: StoreTx,
  before: AlertState,
  { hook, failing, recovered, exhausted }: Change,
  now: number,
): Promise<AlertState> {
  const about = { webhookID: hook.id, project: hook.projectId };
  let state = before;
  if (recovered && state.failingSince !== null) {
    await operational.tell(tx, 'webhook.recovered', { ...about, failingSince: isoTime(state.failingSince) });
    state = { ...state, failingSince: null };
  } else if (failing && !recovered && state.failingSince === null) {
    await operational.tell(tx, 'webhook.failing', about);
    state = { ...state, failingSince: now };
  }
  if (exhausted === 0) return state;
  const count = state.exhausted + exhausted;
  if (now - state.exhaustedToldAt < EXHAUSTED_EVERY_MS) return { ...state, exhausted: count };
  await operational.tell(tx, 'delivery.exhausted', { ...about, count });
  return { ...state, exhausted: 0, exhaustedToldAt: now };
}

const OPERATIONAL_TYPES = [
  'webhook.disabled',
  'webhook.failing',
  'webhook.recovered',
  'delivery.exhausted',
  'webhook.paused',
  'chain.gap',
  'chain.reverted',
  'chain.stalled',
  'chain.resumed',
] as const;
type OperationalType = (typeof OPERATIONAL_TYPES)[number];

/** One event for the operator. */
export interface OperationalEvent {
  readonly type: OperationalType;
  /** ISO 8601, UTC. */
  readonly timestamp: string;
  readonly data: Readonly<Record<string, unknown>>;
}

/** The operator's own webhook. */
export interface Operational {
  readonly isOn: boolean;
  /**
   * Puts an event into the outbox, with the transaction that caused it; one with the name `once` only once. Does nothing where no
   * address is configured.
   */
  tell(tx: StoreTx, type: OperationalType, data: OperationalEvent['data'], options?: TellOptions): Promise<void>;
}

interface TellOptions {
  readonly once?: string;
  /** By which the event is found again. */
  readonly group?: string;
}

export const OPERATIONAL_KIND = 'webhooks.operational';
const ID_BYTES = 16;

interface OperationalParts {
  readonly config: WebhooksConfig['operational'];
  readonly enqueue: PluginContext['jobs']['add'];
  readonly clock: Clock;
  readonly random: Random;
}

const digest = (text: string): string => hash('sha256', text, 'hex').slice(0, 2 * ID_BYTES);

export function createOperational({ config, enqueue, clock, random }: OperationalParts): Operational {
  return {
    isOn: config !== null,
    async tell(tx, type, data, { once, group = 'operator' } = {}) {
      if (config === null) return;
      const payload: OperationalEvent = { type, timestamp: new Date(clock.now()).toISOString(), data };
      const key = `evt_${once === undefined ? Buffer.from(random.bytes(ID_BYTES)).toString('hex') : digest(once)}`;
      await enqueue(tx, [{ kind: OPERATIONAL_KIND, key, group, payload }]);
    },
  };
}

/** What the operator was told of a webhook. Times are unix milliseconds. */
interface AlertState {
  readonly number: number;
  /** Since when it is known to fail; null while it is not. */
  readonly failingSince: number | null;
  /** Deliveries that were given up and not told yet. */
  readonly exhausted: number;
  readonly exhaustedToldAt: number;
}

async function readAlerts(tx: StoreTx, numbers: readonly number[]): Promise<ReadonlyMap<number, AlertState>> {
  const rows = await (tx.db as Db).selectFrom('webhook_alerts').selectAll().where('number', 'in', numbers).execute();
  return new Map(
    rows.map((row) => [
      row.number,
      {
        number: row.number,
        failingSince: row.failing_since,
        exhausted: row.exhausted,
        exhaustedToldAt: row.exhausted_told_at,
      },
    ]),
  );
}

async function writeAlert(tx: StoreTx, state: AlertState): Promise<void> {
  const values = {
    failing_since: state.failingSince,
    exhausted: state.exhausted,
    exhausted_told_at: state.exhaustedToldAt,
  };
  await (tx.db as Db)
    .insertInto('webhook_alerts')
    .values({ number: state.number, ...values })
    .onConflict((conflict) => conflict.column('number').doUpdateSet(values))
    .execute();
}
