import type { Job, JobKind, JobOutcome } from '../../../src/plugin/plugin.ts';
import type { Clock, Random } from '../../../src/ports/clock.ts';
import { retryAfterMs } from '../../../src/runtime/retry-after.ts';
import type { WebhooksConfig } from '../config.ts';
import { longestDelayMs, retryDelayMs } from '../delivery/run.ts';
import type { Post } from '../delivery/send.ts';
import { secretKey, signBody } from '../delivery/signature.ts';
import { OPERATIONAL_KIND } from './alerts.ts';

export interface OperationalKindParts {
  readonly post: Post;
  readonly clock: Clock;
  readonly random: Random;
  readonly config: WebhooksConfig;
  readonly userAgent: string;
}

/** Sends events to the operator: signed like deliveries, with patient retries, and never switched off. */
export function createOperationalKind({ post, clock, random, config, userAgent }: OperationalKindParts): JobKind {
  const { operational } = config;
  const { timeoutMs } = config.retry.durable;

  async function run(job: Job, signal: AbortSignal): Promise<JobOutcome> {
    // Events of an earlier configuration.
    if (operational === null) return { kind: 'discarded', error: 'no operational webhook is configured' };
    const body = Buffer.from(JSON.stringify(job.payload));
    const timestamp = Math.floor(clock.now() / 1_000);
    const headers = {
      'content-type': 'application/json',
      'user-agent': userAgent,
      'webhook-id': job.key,
      'webhook-timestamp': String(timestamp),
      'webhook-signature': signBody([secretKey(operational.secret)], job.key, timestamp, body),
    };
    const verdict = await post({ url: operational.url, headers, body, timeoutMs, repeatsAtOnce: true }, signal);
    if (verdict.failure === null) return { kind: 'done' };
    if (signal.aborted) return { kind: 'retry', runAt: job.createdAt, error: 'stopped', uncounted: true };
    const now = clock.now();
    const hints = { retryAfterMs: retryAfterMs(verdict.retryAfter, now), overloaded: verdict.overloaded };
    const delayMs = retryDelayMs(config.retry, 'durable', job.attempts + 1, hints, random);
    if (delayMs === null) return { kind: 'failed', error: verdict.failure };
    return { kind: 'retry', runAt: now + delayMs, error: verdict.failure };
  }

  return {
    kind: OPERATIONAL_KIND,
    summary: 'tells the operator of webhooks that fail and of holes in the chain',
    concurrency: 2,
    timeoutMs: 2 * timeoutMs,
    longestDelayMs: longestDelayMs(config.retry),
    keepsTime: true,
    run: (job, _prepared, signal) => run(job, signal),
  };
}
