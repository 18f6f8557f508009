import type { SettledJob } from '../../../src/kernel/plugin.ts';
import type { Clock } from '../../../src/ports/clock.ts';
import type { Log } from '../../../src/ports/log.ts';
import type { StoreTx } from '../../../src/ports/store.ts';
import type { Reports } from '../delivery/reports.ts';
import { isoTime } from '../model/view.ts';
import type { Webhook } from '../model/webhook.ts';
import { type AlertState, readAlerts, writeAlert } from '../store/alerts.ts';
import type { Operational } from './operational.ts';

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
