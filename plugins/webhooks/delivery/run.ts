import { codeOf, type Job, type JobOutcome, messageOf } from '../../../src/plugin/plugin.ts';
import type { AccessCharges, Charge } from '../../../src/ports/access.ts';
import type { Clock, Random } from '../../../src/ports/clock.ts';
import type { WebhooksConfig } from '../config.ts';
import type { RetryPreset, Webhook } from '../model/webhook.ts';
import type { Member } from '../store/batches.ts';
import { type Batch, type BatchParts, batchLimit, dissolveBatch, gatherBatch, REASONS, repeatBatch } from './batch.ts';
import type { Pace } from './pace.ts';
import type { Prepared, PreparedHook } from './prepare.ts';
import type { DeliveryPayload } from './queue.ts';
import type { Send, Sent } from './send.ts';
import { messageId } from './signature.ts';

/** A finished attempt on its way into the bookkeeping. */
export interface Report {
  readonly hook: Webhook;
  readonly sent: Sent;
  /** 1-based. */
  readonly n: number;
  /** Deliveries that went in the same request. */
  readonly members: readonly Member[];
  /** That they did, or that there are none, was written down before. */
  readonly isFixed: boolean;
  /** Of a first attempt, to be settled when its outcome is written. */
  readonly charge: Charge | null;
}

export interface RunParts extends BatchParts {
  readonly send: Send;
  readonly pace: Pace;
  readonly clock: Clock;
  readonly random: Random;
  readonly config: WebhooksConfig;
  /** Null where nobody counts credits. */
  readonly charges: AccessCharges | null;
  /** Told about each attempt before its outcome is returned. */
  report(job: Job, report: Report): void;
}

/** Each delivery costs this, once, whatever its receiver says. */
export const DELIVERY_PRICE = { product: 'webhooks', credits: 1 } as const;
/** A delivery that was claimed on older knowledge comes again after about this time. */
const COME_AGAIN_MS = 100;
const STORE_PAUSE_MS = 1_000;

/** Makes one attempt at a delivery and says what comes next. */
export async function runDelivery(
  parts: RunParts,
  job: Job,
  prepared: Prepared,
  signal: AbortSignal,
): Promise<JobOutcome> {
  const found = prepared.hooks.get(job.group);
  if (found === undefined) return { kind: 'discarded', error: REASONS.deleted };
  const { hook } = found;
  if (!hook.active) {
    return hook.onInactive === 'hold'
      ? held(REASONS.inactive, 'untouched')
      : { kind: 'discarded', error: REASONS.disabled };
  }
  if (prepared.paused.has(hook.projectId)) return held(REASONS.credits, 'untouched');
  const { pace, clock, random } = parts;
  if (!pace.enter(hook.id)) {
    const runAt = clock.now() + COME_AGAIN_MS * (1 + random.float());
    return { kind: 'retry', runAt, error: 'too many at once', uncounted: 'untouched' };
  }
  try {
    return await attempt(parts, job, found, prepared, signal);
  } finally {
    pace.leave(hook.id);
  }
}

const held = (reason: string, uncounted: true | 'untouched' = true): JobOutcome => ({
  kind: 'held',
  reason,
  uncounted,
});

/** What becomes of a delivery when the store cannot tell what goes with it. */
function unsent({ clock, random }: RunParts, error: unknown): JobOutcome {
  if (codeOf(error)?.startsWith('STORE_') !== true) throw error;
  const runAt = clock.now() + STORE_PAUSE_MS * (1 + random.float());
  return { kind: 'retry', runAt, error: messageOf(error), uncounted: 'untouched' };
}

async function attempt(
  parts: RunParts,
  job: Job,
  { hook, keys }: PreparedHook,
  prepared: Prepared,
  signal: AbortSignal,
): Promise<JobOutcome> {
  const { send, pace } = parts;
  const payload = job.payload as DeliveryPayload;
  const own = prepared.body(payload);
  if (own === undefined || keys.length === 0) return { kind: 'failed', error: 'unsendable' };
  let batch: Batch | null;
  try {
    batch = await batchOf(parts, job, hook, own, prepared.batches.get(job.id));
  } catch (error) {
    return unsent(parts, error);
  }
  if (batch === null) return { kind: 'failed', error: 'unsendable' };
  const { members, body, isFixed } = batch;
  const n = job.attempts + 1;
  const count = 1 + members.length;
  const charge =
    n > 1 || parts.charges === null ? null : await parts.charges.reserve(hook.projectId, { ...DELIVERY_PRICE, count });
  if (charge === null && n === 1 && parts.charges !== null) return held(REASONS.credits);
  const signatures = [payload.signature, ...members.map((member) => member.payload.signature)];
  const message = {
    id: messageId(hook.id, signatures.join(',')),
    body,
    attempt: n,
    createdAt: job.createdAt,
    test: false,
  };
  let sent: Sent | null = null;
  try {
    sent = await send(hook, keys, message, signal);
  } finally {
    if (sent === null) charge?.settle(false);
  }
  if (signal.aborted && sent.verdict.failure === 'timeout') {
    // Given up by us and not by the receiver.
    charge?.settle(false);
    return { kind: 'retry', runAt: job.createdAt, error: 'stopped', uncounted: true };
  }
  if (sent.verdict.throttle) pace.throttle(hook.id);
  if (sent.verdict.failure === null) pace.succeeded(hook.id);
  parts.report(job, { hook, sent, n, members, isFixed, charge });
  return outcomeOf(parts, job, hook, sent);
}

function batchOf(
  parts: RunParts,
  job: Job,
  hook: Webhook,
  own: Buffer,
  fixed: readonly Member[] | undefined,
): Batch | Promise<Batch | null> {
  if (fixed !== undefined) {
    return fixed.length < batchLimit(hook)
      ? repeatBatch(parts, job, fixed, own)
      : dissolveBatch(parts, job, fixed, own);
  }
  if (hook.batchSize === 1 || job.attempts > 0 || job.once === true) return { members: [], body: own, isFixed: false };
  return gatherBatch(parts, job, hook, own);
}

function outcomeOf({ clock, random, config }: RunParts, job: Job, hook: Webhook, { verdict }: Sent): JobOutcome {
  if (verdict.failure === null) return { kind: 'done' };
  const error = verdict.status === null ? verdict.failure : `${verdict.failure} ${verdict.status}`;
  if (!verdict.retryable || job.once === true) return { kind: 'failed', error };
  const now = clock.now();
  const hints = { retryAfterMs: parseRetryAfter(verdict.retryAfter, now), overloaded: verdict.overloaded };
  const delayMs = retryDelayMs(config.retry, hook.retryPreset, job.attempts + 1, hints, random);
  return delayMs === null ? { kind: 'failed', error } : { kind: 'retry', runAt: now + delayMs, error };
}

/** Delay after a time-out or a 429 under the durable preset, at least. */
const CALM_MS = 60_000;

export interface RetryHints {
  /** From `Retry-After`, or null. */
  readonly retryAfterMs: number | null;
  /** The receiver was too slow or asked for less: time-out or 429. */
  readonly overloaded: boolean;
}

/** Milliseconds until the next attempt, or null when `finishedAttempts` (this one included) used the preset up. */
export function retryDelayMs(
  config: WebhooksConfig['retry'],
  preset: RetryPreset,
  finishedAttempts: number,
  hints: RetryHints,
  random: Random,
): number | null {
  const seconds = config[preset].steps[finishedAttempts - 1];
  if (seconds === undefined) return null;
  let stepMs = seconds * 1_000;
  if (preset === 'durable') {
    stepMs *= 1 + config.durable.jitter * (2 * random.float() - 1);
    if (hints.overloaded) stepMs = Math.max(stepMs, CALM_MS);
  }
  if (hints.retryAfterMs === null) return Math.round(stepMs);
  return Math.round(Math.min(Math.max(hints.retryAfterMs, stepMs), 2 * stepMs));
}

/** No attempt of any preset is planned further ahead. */
export function longestDelayMs({ durable, compat }: WebhooksConfig['retry']): number {
  const longestStepMs = 1_000 * Math.max(0, ...compat.steps, ...durable.steps);
  return 2 * (1 + durable.jitter) * longestStepMs + CALM_MS;
}

/** `Retry-After` in either of its forms, as milliseconds from now; null when absent or nonsense. */
export function parseRetryAfter(value: string | undefined, now: number): number | null {
  if (value === undefined) return null;
  const text = value.trim();
  if (/^\d{1,15}(\.\d+)?$/.test(text)) return Number(text) * 1_000;
  // Only HTTP dates: the date parser alone would take almost any text with a number in it.
  if (!/^[A-Za-z]{3,9},? /.test(text)) return null;
  const at = Date.parse(text);
  return Number.isNaN(at) ? null : Math.max(0, at - now);
}

/** Reports of attempts on their way to the bookkeeping, by the id of the job. */
export interface Reports {
  get(jobId: number): Report | undefined;
  put(jobId: number, report: Report): void;
  take(jobId: number): Report | undefined;
}

/** Longer than the bookkeeping of an attempt takes, whatever goes wrong. */
const LOST_MS = 600_000;
const LOOK_AT = 1_024;

/** The outcome of a job that another process took over is never written: its report goes after a while, and the other one charges. */
export function createReports(clock: Clock): Reports {
  const reports = new Map<number, { readonly report: Report; readonly at: number }>();
  const forget = (jobId: number, wasWritten: boolean): void => {
    reports.get(jobId)?.report.charge?.settle(wasWritten);
    reports.delete(jobId);
  };
  return {
    get: (jobId) => reports.get(jobId)?.report,
    put(jobId, report) {
      // An attempt that is not the first one says that the one before was written, although nobody heard of it.
      forget(jobId, report.n > 1);
      const at = clock.monotonic();
      if (reports.size >= LOOK_AT) {
        for (const [id, other] of reports) if (at - other.at > LOST_MS) forget(id, false);
      }
      reports.set(jobId, { report, at });
    },
    take(jobId) {
      const found = reports.get(jobId)?.report;
      reports.delete(jobId);
      return found;
    },
  };
}
