/** Jobs that post a notice to somebody other than a webhook: with durable retries, never disabled. */
import type { Job, JobKind, JobOutcome } from '../../src/plugin/plugin.ts';
import type { Clock, Random } from '../../src/ports/clock.ts';
import { retryAfterMs } from '../../src/runtime/waiting.ts';
import type { WebhooksConfig } from './config.ts';
import { longestDelayMs, retryDelayMs } from './delivery/attempt.ts';
import type { Post } from './delivery/send.ts';

export interface NoticeKindParts {
  readonly post: Post;
  readonly clock: Clock;
  readonly random: Random;
  readonly config: WebhooksConfig;
  readonly userAgent: string;
}

interface Notice {
  readonly url: string;
  readonly body: Buffer;
  /** Beside content type, user agent and id. */
  readonly headers?: Readonly<Record<string, string>>;
}

interface NoticeKind {
  readonly kind: string;
  readonly summary: string;
  /** What to post now; an outcome if there is nobody to post it to. */
  readonly noticeOf: (job: Job) => Notice | JobOutcome;
}

export function createNoticeKind(parts: NoticeKindParts, { kind, summary, noticeOf }: NoticeKind): JobKind {
  const { post, clock, random, config, userAgent } = parts;

  async function run(job: Job, signal: AbortSignal): Promise<JobOutcome> {
    const notice = noticeOf(job);
    if ('kind' in notice) return notice;
    const headers = {
      'content-type': 'application/json',
      'user-agent': userAgent,
      'webhook-id': job.key,
      ...notice.headers,
    };
    const { timeoutMs } = config.retry.durable;
    const verdict = await post({ url: notice.url, headers, body: notice.body, timeoutMs, retriesAtOnce: true }, signal);
    if (verdict.failure === null) return { kind: 'done' };
    if (signal.aborted) return { kind: 'retry', runAt: job.createdAt, error: 'stopped', uncounted: true };
    const now = clock.now();
    const hints = { retryAfterMs: retryAfterMs(verdict.retryAfter, now), overloaded: verdict.overloaded };
    const delayMs = retryDelayMs(config.retry, 'durable', job.attempts + 1, hints, random);
    if (delayMs === null) return { kind: 'failed', error: verdict.failure };
    return { kind: 'retry', runAt: now + delayMs, error: verdict.failure };
  }

  return {
    kind,
    summary,
    concurrency: 2,
    get timeoutMs() {
      return 2 * config.retry.durable.timeoutMs;
    },
    get longestDelayMs() {
      return longestDelayMs(config.retry);
    },
    keepsTime: true,
    run: (job, _prepared, signal) => run(job, signal),
  };
}
