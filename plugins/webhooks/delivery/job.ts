import { LRUCache } from 'lru-cache';
import type { Job, JobKind, JobOutcome } from '../../../src/plugin/plugin.ts';
import type { Clock } from '../../../src/ports/clock.ts';
import type { Counter, Metrics } from '../../../src/ports/metrics.ts';
import type { Store } from '../../../src/ports/store.ts';
import { wrapElement } from '../bodies.ts';
import type { DeliveryPayload, DisabledReason, Webhook } from '../model.ts';
import type { Alerts } from '../operational.ts';
import { elementKey, type Member, readBatches, readElements } from '../store/deliveries.ts';

import { pausedProjects } from '../store/health.ts';
import { hooksById, readSecrets } from '../store/hooks.ts';
import type { Db } from '../store/tables.ts';
import { createReports, longestDelayMs, type RunParts, runDelivery } from './attempt.ts';
import { type AutoDisableParts, disableFailing } from './auto-disable.ts';
import { recordOutcomes } from './outcomes.ts';
import { type Sent, secretKey } from './send.ts';

interface JobKindParts extends Omit<RunParts, 'report'> {
  readonly store: Store;
  readonly autoDisable: AutoDisableParts;
  readonly metrics: DeliveryMetrics;
  readonly alerts: Alerts;
}

/** The kind of job that sends a matched transaction to a webhook. */
export function createDeliveryKind(kind: string, parts: JobKindParts): JobKind {
  const { config, clock, pace, metrics } = parts;
  const reports = createReports(clock);
  const bodies = createBodyCache();
  const runParts: RunParts = {
    ...parts,
    report: (job, report) => {
      reports.put(job.id, report);
      metrics.attempt(report.sent);
      if (report.n === 1) metrics.firstAttempt(report.sent.startedAt - job.createdAt);
    },
  };
  return {
    kind,
    summary: 'sends a matched transaction to a webhook',
    concurrency: config.concurrency.global,
    groupConcurrency: pace.concurrency,
    groupAhead: pace.ahead,
    // Two requests at most: the second follows a connection that failed at once.
    timeoutMs: 2 * Math.max(config.retry.durable.timeoutMs, config.retry.compat.timeoutMs),
    longestDelayMs: longestDelayMs(config.retry),
    keepsTime: true,
    async prepare(jobs: readonly Job[]) {
      const prepared = await prepareDeliveries(parts.store, clock, bodies, jobs);
      for (const { hook } of prepared.hooks.values()) pace.learn(hook);
      return prepared;
    },
    run: (job, prepared, signal) => runDelivery(runParts, job, prepared as Prepared, signal),
    async settle(tx, settled) {
      const suspects = await recordOutcomes(parts, tx, settled, reports);
      await disableFailing(parts.autoDisable, tx, suspects);
    },
    written(settled) {
      for (const { job, outcome } of settled) {
        reports.take(job.id)?.charge?.settle(true);
        metrics.settled(outcome.kind);
      }
    },
  };
}

/** Looks up webhooks that were asked for, those of one turn in one query. What cannot be read now is asked for again by whoever needs it. */
export function createHookLoader(store: Store, learn: (hook: Webhook) => unknown): (webhookId: string) => void {
  const asked = new Set<string>();
  let isAnswering = false;

  async function answer(): Promise<void> {
    await Promise.resolve();
    while (asked.size > 0) {
      const ids = [...asked];
      // The store tells its trouble itself.
      const hooks = await hooksById(store.read as Db, store.dialect, ids).catch(() => []);
      for (const hook of hooks) learn(hook);
      for (const id of ids) asked.delete(id);
    }
    isAnswering = false;
  }

  return (webhookId) => {
    asked.add(webhookId);
    if (isAnswering) return;
    isAnswering = true;
    void answer();
  };
}

export interface PreparedHook {
  readonly hook: Webhook;
  /** HMAC keys, newest first. */
  readonly keys: readonly Buffer[];
}

/** What the deliveries of one claim need. */
export interface Prepared {
  /** By webhook id; a deleted webhook is missing. */
  readonly hooks: ReadonlyMap<string, PreparedHook>;
  /** Of the deliveries that lead a batch. */
  readonly batches: ReadonlyMap<number, readonly Member[]>;
  /** Projects whose deliveries wait for credits. */
  readonly paused: ReadonlySet<string>;
  /** The request body of a delivery; the same bytes for all webhooks and at every attempt. Undefined when its source is gone. */
  body(payload: DeliveryPayload): Buffer | undefined;
}

/** BodyCache that were made not long ago: they never change, and a delivery that waits is prepared anew from time to time. */
export type BodyCache = LRUCache<string, Buffer>;

const MAX_BODY_BYTES = 16 * 1024 * 1024;
/** Of an entry beside its bytes, about. */
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
): Promise<Prepared> {
  const db = store.read as Db;
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
  // A batch can be older than an edit that ended batches.
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

/** The bodies of the payloads by `elementKey`; those whose source is gone are missing. */
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
  const elements = await readElements(store, [...new Set([...wanted.values()].map(({ signature }) => signature))]);
  for (const [key, { form }] of wanted) {
    const json = elements.get(key);
    if (json === undefined) continue;
    const body = wrapElement(form, json);
    bodies.set(key, body);
    found.set(key, body);
  }
  return found;
}

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
