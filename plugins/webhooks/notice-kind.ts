/** Jobs that send a notice to somebody other than a webhook: with durable retries, never disabled. */
import type { Job, JobKind, JobOutcome } from '../../src/plugin/plugin.ts';
import type { Clock, Random } from '../../src/ports/clock.ts';
import { retryAfterMs } from '../../src/runtime/waiting.ts';
import type { WebhooksConfig } from './config.ts';
import { longestDelayMs, retryDelayMs } from './delivery/attempt.ts';
import type { Post } from './delivery/send.ts';
import type { Mail, Mailer } from './mail.ts';

export interface NoticeKindParts {
  readonly post: Post;
  readonly clock: Clock;
  readonly random: Random;
  readonly config: WebhooksConfig;
  readonly userAgent: string;
  /** Null: no e-mails are sent. */
  readonly mailer: Mailer | null;
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
  readonly noticeOf: (job: Job) => Notice | { readonly mail: Mail } | JobOutcome;
}

export function createNoticeKind(parts: NoticeKindParts, { kind, summary, noticeOf }: NoticeKind): JobKind {
  const { clock, random, config } = parts;

  async function run(job: Job, signal: AbortSignal): Promise<JobOutcome> {
    const notice = noticeOf(job);
    if ('kind' in notice) return notice;
    const verdict =
      'mail' in notice ? await mailed(parts, notice.mail, signal) : await posted(parts, job, notice, signal);
    if (verdict === null) return { kind: 'done' };
    const { error, isFinal } = verdict;
    if (isFinal) return { kind: 'failed', error };
    if (signal.aborted) return { kind: 'retry', runAt: job.createdAt, error: 'stopped', uncounted: true };
    const now = clock.now();
    const hints = { retryAfterMs: retryAfterMs(verdict.retryAfter, now), overloaded: verdict.overloaded };
    const delayMs = retryDelayMs(config.retry, 'durable', job.attempts + 1, hints, random);
    if (delayMs === null) return { kind: 'failed', error };
    return { kind: 'retry', runAt: now + delayMs, error };
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

/** Why a notice did not arrive; null if it did. */
type Verdict = {
  readonly error: string;
  /** No further attempt can help. */
  readonly isFinal: boolean;
  readonly retryAfter: string | undefined;
  readonly overloaded: boolean;
} | null;

async function posted(
  { post, config, userAgent }: NoticeKindParts,
  job: Job,
  { url, body, headers: own }: Notice,
  signal: AbortSignal,
): Promise<Verdict> {
  const headers = { 'content-type': 'application/json', 'user-agent': userAgent, 'webhook-id': job.key, ...own };
  const { timeoutMs } = config.retry.durable;
  const { failure, retryAfter, overloaded } = await post(
    { url, headers, body, timeoutMs, retriesAtOnce: true },
    signal,
  );
  return failure === null ? null : { error: failure, isFinal: false, retryAfter, overloaded };
}

async function mailed({ mailer, config }: NoticeKindParts, mail: Mail, signal: AbortSignal): Promise<Verdict> {
  const rest = { retryAfter: undefined, overloaded: false };
  if (mailer === null) return { error: 'e-mail: webhooks.email.server is not set', isFinal: true, ...rest };
  const result = await mailer.send(mail, config.retry.durable.timeoutMs, signal);
  return result === null ? null : { ...result, ...rest };
}
