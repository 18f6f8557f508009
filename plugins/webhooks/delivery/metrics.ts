import type { JobOutcome } from '../../../src/plugin/plugin.ts';
import type { Counter, Metrics } from '../../../src/ports/metrics.ts';
import type { DisabledReason } from '../model/webhook.ts';
import type { Sent } from './send.ts';

export interface DeliveryMetrics {
  attempt(sent: Sent): void;
  /** From the commit of the block to the first attempt. */
  firstAttempt(delayMs: number): void;
  settled(outcome: JobOutcome['kind']): void;
  matched(count: number): void;
  disabled(reason: DisabledReason): void;
}

const DELAY_SECONDS = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300];
const SECONDS = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

export function createDeliveryMetrics(metrics: Metrics): DeliveryMetrics {
  const attempt = children(
    metrics.counter('attempts_total', 'Requests to receivers by what became of them', ['outcome']),
  );
  const next = children(metrics.counter('attempt_steps_total', 'Finished attempts by what follows', ['next']));
  const matched = metrics.counter('matched_total', 'Deliveries that blocks gave rise to');
  const blocked = metrics.counter('blocked_addresses_total', 'Attempts refused because of the address of the receiver');
  const disabled = children(
    metrics.counter('auto_disabled_total', 'Webhooks that were disabled by themselves', ['reason']),
  );
  const duration = metrics.histogram('attempt_seconds', 'Length of one attempt', SECONDS);
  const delay = metrics.histogram(
    'first_attempt_delay_seconds',
    'From the commit of a block to the first attempt of a delivery',
    DELAY_SECONDS,
  );
  return {
    firstAttempt: (delayMs) => delay.record(Math.max(0, delayMs) / 1_000),
    attempt({ verdict, durationMs }) {
      attempt(verdict.failure ?? 'success').add();
      if (verdict.failure === 'blocked_address') blocked.add();
      duration.record(durationMs / 1_000);
    },
    settled: (outcome) => next(outcome).add(),
    matched: (count) => matched.add(count),
    disabled: (reason) => disabled(reason).add(),
  };
}

/** The children of a counter with one label of few values, each resolved once. */
function children(counter: Counter): (label: string) => Counter {
  const known = new Map<string, Counter>();
  return (label) => {
    const found = known.get(label) ?? counter.with(label);
    known.set(label, found);
    return found;
  };
}
