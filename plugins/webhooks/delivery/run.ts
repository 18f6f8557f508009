import type { Job, JobOutcome } from '../../../src/kernel/plugin.ts';
import type { Clock, Random } from '../../../src/ports/clock.ts';
import type { WebhooksConfig } from '../config.ts';
import type { Webhook } from '../model/webhook.ts';
import type { Pace } from './pace.ts';
import type { DeliveryPayload } from './payload.ts';
import type { Prepared } from './prepare.ts';
import { REASONS } from './reasons.ts';
import { parseRetryAfter, retryDelayMs } from './retry.ts';
import type { Send, Sent } from './send.ts';
import { messageId } from './signature.ts';

/** A finished attempt on its way into the bookkeeping. */
export interface Report {
  readonly hook: Webhook;
  readonly sent: Sent;
  /** 1-based. */
  readonly n: number;
}

export interface RunParts {
  readonly send: Send;
  readonly pace: Pace;
  readonly clock: Clock;
  readonly random: Random;
  readonly config: WebhooksConfig;
  /** Told about each attempt before its outcome is returned. */
  report(job: Job, report: Report): void;
}

/** Makes one attempt at a delivery and says what comes next. */
export async function runDelivery(
  parts: RunParts,
  job: Job,
  prepared: Prepared,
  signal: AbortSignal,
): Promise<JobOutcome> {
  const found = prepared.hooks.get(job.group);
  if (found === undefined) return { kind: 'discarded', error: REASONS.deleted };
  const { hook, keys } = found;
  if (!hook.active) return { kind: 'discarded', error: REASONS.disabled };
  const payload = job.payload as DeliveryPayload;
  const body = prepared.body(payload);
  if (body === undefined || keys.length === 0) return { kind: 'failed', error: 'unsendable' };

  const { send, pace, clock } = parts;
  const n = job.attempts + 1;
  pace.started(hook.id);
  const message = {
    id: messageId(hook.id, payload.signature),
    body,
    attempt: n,
    createdAt: job.createdAt,
    test: false,
  };
  const sent = await send(hook, keys, message, signal);
  if (signal.aborted && sent.verdict.failure === 'timeout') {
    // Given up by us and not by the receiver.
    return { kind: 'retry', runAt: clock.now(), error: 'stopped', uncounted: true };
  }
  if (sent.verdict.throttle) pace.throttle(hook.id);
  if (sent.verdict.failure === null) pace.succeeded(hook.id);
  parts.report(job, { hook, sent, n });
  return outcomeOf(parts, hook, n, sent);
}

function outcomeOf({ clock, random, config }: RunParts, hook: Webhook, n: number, { verdict }: Sent): JobOutcome {
  if (verdict.failure === null) return { kind: 'done' };
  const error = verdict.status === null ? verdict.failure : `${verdict.failure} ${verdict.status}`;
  if (!verdict.retryable) return { kind: 'failed', error };
  const now = clock.now();
  const hints = { retryAfterMs: parseRetryAfter(verdict.retryAfter, now), overloaded: verdict.overloaded };
  const delayMs = retryDelayMs(config.retry, hook.retryPreset, n, hints, random);
  return delayMs === null ? { kind: 'failed', error } : { kind: 'retry', runAt: now + delayMs, error };
}
