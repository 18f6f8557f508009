import { LRUCache } from 'lru-cache';
import { codeOf, type Job, type JobOutcome, messageOf } from '../../../src/plugin/plugin.ts';
import type { AccessCharges, Charge } from '../../../src/ports/access.ts';
import type { Clock, Random } from '../../../src/ports/clock.ts';
import type { Store } from '../../../src/ports/store.ts';
import { retryAfterMs } from '../../../src/runtime/waiting.ts';
import { createBodyRoom, mergeBodies, wrapElement } from '../bodies.ts';
import type { WebhooksConfig } from '../config.ts';
import { batchLimit, type DeliveryPayload, kindOf, REASONS, type RetryPreset, type Webhook } from '../model.ts';
import {
  type BatchMember,
  elementKey,
  endBatches,
  insertBatch,
  readBatches,
  readElements,
} from '../store/deliveries.ts';
import { pausedProjects } from '../store/health.ts';
import { hooksById, readSecrets } from '../store/hooks.ts';
import type { WebhookDb } from '../store/tables.ts';
import type { Pace } from './pace.ts';
import type { DeliveryQueue } from './queue.ts';
import { type AttemptResult, messageId, type SendDelivery, secretKey } from './send.ts';

/** A finished attempt whose outcome is not written yet. */
export interface Report {
  readonly hook: Webhook;
  readonly sent: AttemptResult;
  /** 1-based. */
  readonly n: number;
  /** The other deliveries of the same request. */
  readonly members: readonly BatchMember[];
  /** The batch, or that there is no batch, was stored before sending. */
  readonly isFixed: boolean;
  /** Charge of a first attempt, completed when its outcome is written. */
  readonly charge: Charge | null;
}

export interface AttemptParts extends BatchParts {
  readonly send: SendDelivery;
  readonly pace: Pace;
  readonly clock: Clock;
  readonly random: Random;
  readonly config: WebhooksConfig;
  /** Null: credits are not counted. */
  readonly charges: AccessCharges | null;
  /** Called with each attempt before its outcome is returned. */
  report(job: Job, report: Report): void;
}

/** Charged once per delivery, whatever its receiver answers. */
export const DELIVERY_PRICE = { product: 'webhooks', credits: 1 } as const;
/** Delay before a claimed delivery that may not start yet is retried. */
const RETRY_SOON_MS = 100;
const STORE_PAUSE_MS = 1_000;

/** Makes one attempt at a delivery and returns the next step. */
export async function runDelivery(
  parts: AttemptParts,
  job: Job,
  prepared: PreparedDeliveries,
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
    const runAt = clock.now() + RETRY_SOON_MS * (1 + random.float());
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

/** Outcome of a delivery whose batch cannot be read from the store. */
function unsent({ clock, random }: AttemptParts, error: unknown): JobOutcome {
  if (codeOf(error)?.startsWith('STORE_') !== true) throw error;
  const runAt = clock.now() + STORE_PAUSE_MS * (1 + random.float());
  return { kind: 'retry', runAt, error: messageOf(error), uncounted: 'untouched' };
}

async function attempt(
  parts: AttemptParts,
  job: Job,
  { hook, keys }: PreparedHook,
  prepared: PreparedDeliveries,
  signal: AbortSignal,
): Promise<JobOutcome> {
  const { send, pace } = parts;
  const payload = job.payload as DeliveryPayload;
  const own = prepared.body(payload);
  if (own === undefined || keys.length === 0) return { kind: 'failed', error: 'unsendable' };
  let batch: DeliveryBatch | null;
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
  let sent: AttemptResult | null = null;
  try {
    sent = await send(hook, keys, message, signal);
  } finally {
    if (sent === null) charge?.finish(false);
  }
  if (signal.aborted && sent.verdict.failure === 'timeout') {
    // The daemon is stopping: not a failure of the receiver.
    charge?.finish(false);
    return { kind: 'retry', runAt: job.createdAt, error: 'stopped', uncounted: true };
  }
  if (sent.verdict.throttle) pace.throttle(hook.id);
  if (sent.verdict.failure === null) pace.succeeded(hook.id);
  parts.report(job, { hook, sent, n, members, isFixed, charge });
  return outcomeOf(parts, job, hook, sent);
}

function batchOf(
  parts: AttemptParts,
  job: Job,
  hook: Webhook,
  own: Buffer,
  fixed: readonly BatchMember[] | undefined,
): DeliveryBatch | Promise<DeliveryBatch | null> {
  if (fixed !== undefined) {
    return fixed.length < batchLimit(hook)
      ? repeatBatch(parts, job, fixed, own)
      : dissolveBatch(parts, job, fixed, own);
  }
  if (hook.batchSize === 1 || job.attempts > 0 || job.once === true) return { members: [], body: own, isFixed: false };
  return gatherBatch(parts, job, hook, own);
}

function outcomeOf(
  { clock, random, config }: AttemptParts,
  job: Job,
  hook: Webhook,
  { verdict }: AttemptResult,
): JobOutcome {
  if (verdict.failure === null) return { kind: 'done' };
  const error = verdict.status === null ? verdict.failure : `${verdict.failure} ${verdict.status}`;
  if (!verdict.retryable || job.once === true) return { kind: 'failed', error };
  const now = clock.now();
  const hints = { retryAfterMs: retryAfterMs(verdict.retryAfter, now), overloaded: verdict.overloaded };
  const delayMs = retryDelayMs(config.retry, hook.retryPreset, job.attempts + 1, hints, random);
  return delayMs === null ? { kind: 'failed', error } : { kind: 'retry', runAt: now + delayMs, error };
}

/** Minimum delay after a timeout or a 429 with the durable preset. */
const MIN_OVERLOAD_DELAY_MS = 60_000;

export interface RetryHints {
  /** From `Retry-After`, or null. */
  readonly retryAfterMs: number | null;
  /** The receiver was too slow or asked for less: timeout or 429. */
  readonly overloaded: boolean;
}

/** Milliseconds until the next attempt; null when `finishedAttempts` (including this one) exhausted the preset. */
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
    if (hints.overloaded) stepMs = Math.max(stepMs, MIN_OVERLOAD_DELAY_MS);
  }
  if (hints.retryAfterMs === null) return Math.round(stepMs);
  return Math.round(Math.min(Math.max(hints.retryAfterMs, stepMs), 2 * stepMs));
}

/** Upper bound of the delay of any attempt in any preset. */
export function longestDelayMs({ durable, compat }: WebhooksConfig['retry']): number {
  const longestStepMs = 1_000 * Math.max(0, ...compat.steps, ...durable.steps);
  return 2 * (1 + durable.jitter) * longestStepMs + MIN_OVERLOAD_DELAY_MS;
}

/** Attempts whose outcomes are not written yet, by job id. */
export interface Reports {
  get(jobId: number): Report | undefined;
  put(jobId: number, report: Report): void;
  take(jobId: number): Report | undefined;
}

/** Longer than writing an outcome can take. */
const REPORT_TTL_MS = 600_000;
const SWEEP_AT = 1_024;

/** The outcome of a job that another process took over is never written: its report expires, and the other process charges. */
export function createReports(clock: Clock): Reports {
  const reports = new Map<number, { readonly report: Report; readonly at: number }>();
  const forget = (jobId: number, wasWritten: boolean): void => {
    reports.get(jobId)?.report.charge?.finish(wasWritten);
    reports.delete(jobId);
  };
  return {
    get: (jobId) => reports.get(jobId)?.report,
    put(jobId, report) {
      // A later attempt proves that the outcome of the one before was written, although its commit was never confirmed.
      forget(jobId, report.n > 1);
      const at = clock.monotonic();
      if (reports.size >= SWEEP_AT) {
        for (const [id, other] of reports) if (at - other.at > REPORT_TTL_MS) forget(id, false);
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

export interface BatchParts {
  readonly store: Store;
  readonly queue: DeliveryQueue;
  readonly clock: Clock;
}

/** A batch ready to be sent: its members without the leader, and their common request body. */
export interface DeliveryBatch {
  readonly members: readonly BatchMember[];
  readonly body: Buffer;
  /** Its content was stored before it was sent. */
  readonly isFixed: boolean;
}

/**
 * Gathers further due deliveries of the webhook into the request of a first attempt, up to the limits. The batch is stored before it is sent,
 * so that each attempt in any process sends the same bytes.
 */
function gatherBatch(
  { store, queue, clock }: BatchParts,
  job: Job,
  hook: Webhook,
  own: Buffer,
): Promise<DeliveryBatch> {
  const form = (job.payload as DeliveryPayload).form;
  return store.write(async (tx) => {
    const taken = await queue.takeMembers(tx, job, batchLimit(hook) - 1);
    const payloads = taken.map(({ payload }) => payload as DeliveryPayload);
    const source = { read: tx.db, dialect: tx.dialect };
    const elements = await readElements(source, payloads);
    // A leader whose process died before sending still has its batch.
    const leading = await readBatches(
      tx.db,
      tx.dialect,
      taken.map(({ id }) => id),
    );
    const members: BatchMember[] = [];
    const bodies = [own];
    const fits = createBodyRoom(form, own);
    for (const [at, payload] of payloads.entries()) {
      const id = taken[at]?.id ?? 0;
      const element = elements.get(elementKey(payload));
      if (element === undefined || kindOf(payload.form) !== kindOf(form) || leading.has(id)) break;
      const body = wrapElement(form, element);
      if (!fits(body)) break;
      bodies.push(body);
      members.push({ id, payload });
    }
    const left = taken.slice(members.length).map(({ id }) => id);
    await queue.giveBackMembers(tx, job, left);
    const leader = { id: job.id, payload: job.payload as DeliveryPayload, webhookId: hook.id };
    await insertBatch(tx, leader, members, clock.now());
    return { members, body: members.length === 0 ? own : mergeBodies(form, bodies), isFixed: true };
  });
}

/** The batch size was reduced since this batch was fixed: its deliveries are sent alone from now on, and keep their attempt count. */
function dissolveBatch(
  { store, queue }: BatchParts,
  job: Job,
  members: readonly BatchMember[],
  own: Buffer,
): Promise<DeliveryBatch> {
  return store.write(async (tx) => {
    await queue.releaseMembers(tx, new Map([[job.id, members.map(({ id }) => id)]]));
    await endBatches(tx, [job.id]);
    return { members: [], body: own, isFixed: false };
  });
}

/** The batch fixed at an earlier attempt. Null: its deliveries no longer exist. */
async function repeatBatch(
  { store }: BatchParts,
  job: Job,
  members: readonly BatchMember[],
  own: Buffer,
): Promise<DeliveryBatch | null> {
  const form = (job.payload as DeliveryPayload).form;
  const elements = await readElements(
    store,
    members.map(({ payload }) => payload),
  );
  const bodies = [own];
  for (const { payload } of members) {
    const element = elements.get(elementKey(payload));
    if (element === undefined) return null;
    bodies.push(wrapElement(form, element));
  }
  return { members, body: members.length === 0 ? own : mergeBodies(form, bodies), isFixed: true };
}

export interface PreparedHook {
  readonly hook: Webhook;
  /** HMAC keys, newest first. */
  readonly keys: readonly Buffer[];
}

/** Data for the deliveries of one claim. */
export interface PreparedDeliveries {
  /** By webhook id; without deleted webhooks. */
  readonly hooks: ReadonlyMap<string, PreparedHook>;
  /** Members of a batch, by the id of the delivery that leads it. */
  readonly batches: ReadonlyMap<number, readonly BatchMember[]>;
  /** Projects whose deliveries wait for credits. */
  readonly paused: ReadonlySet<string>;
  /** The request body of a delivery: the same bytes for all webhooks and attempts. Undefined when its source is gone. */
  body(payload: DeliveryPayload): Buffer | undefined;
}

/** Recent bodies. They never change, and a waiting delivery is prepared with each claim. */
export type BodyCache = LRUCache<string, Buffer>;

const MAX_BODY_BYTES = 16 * 1024 * 1024;

/** Estimated overhead of an entry. */
const ENTRY_BYTES = 300;

export function createBodyCache(): BodyCache {
  return new LRUCache({ maxSize: MAX_BODY_BYTES, sizeCalculation: ({ length }) => length + ENTRY_BYTES });
}

/** Loads webhooks, secrets and elements of all jobs of a claim in three queries. */
export async function prepareDeliveries(
  store: Store,
  clock: Clock,
  bodies: BodyCache,
  jobs: readonly Job[],
): Promise<PreparedDeliveries> {
  const db = store.read as WebhookDb;
  const [hooks, found, paused] = await Promise.all([
    hooksById(db, store.dialect, [...new Set(jobs.map((job) => job.group))]),
    loadBodies(
      store,
      bodies,
      jobs.map((job) => job.payload as DeliveryPayload),
    ),
    pausedProjects(db),
  ]);
  const batching = new Set(hooks.filter(({ batchSize }) => batchSize > 1).map(({ id }) => id));
  // A batch can predate an edit that disabled batches.
  const leaders = jobs.filter(({ again, group }) => again === true || batching.has(group)).map(({ id }) => id);
  const secrets = await readSecrets(
    db,
    store.dialect,
    hooks.map(({ number }) => number),
    clock.now(),
  );
  return {
    hooks: new Map(
      hooks.map((hook) => [hook.id, { hook, keys: (secrets.get(hook.number) ?? []).map(secretKey) }] as const),
    ),
    batches: await readBatches(db, store.dialect, leaders),
    paused,
    body: (payload) => found.get(elementKey(payload)),
  };
}

/** The bodies of the payloads by `elementKey`, without those whose source is gone. */
async function loadBodies(
  store: Store,
  bodies: BodyCache,
  payloads: readonly DeliveryPayload[],
): Promise<ReadonlyMap<string, Buffer>> {
  const found = new Map<string, Buffer>();
  const wanted = new Map<string, DeliveryPayload>();
  for (const payload of payloads) {
    const key = elementKey(payload);
    const known = found.get(key) ?? bodies.get(key);
    if (known !== undefined) found.set(key, known);
    else wanted.set(key, payload);
  }
  const elements = await readElements(store, [...wanted.values()]);
  for (const [key, { form }] of wanted) {
    const json = elements.get(key);
    if (json === undefined) continue;
    const body = wrapElement(form, json);
    bodies.set(key, body);
    found.set(key, body);
  }
  return found;
}
