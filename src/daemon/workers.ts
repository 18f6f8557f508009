import type { CoreConfig } from '../config/core.ts';
import { CodedError, codeOf, messageOf } from '../lib/coded-error.ts';
import type { Log } from '../ports/log.ts';
import type { Metrics } from '../ports/metrics.ts';
import type { CheckResult, ConfigValues, MetricFamily, WorkerCommands, WorkerHandle } from '../ports/workers.ts';
import { metricsText } from '../runtime/metrics.ts';

interface WorkersOptions {
  readonly handles: readonly WorkerHandle[];
  readonly lifecycle: CoreConfig['lifecycle'];
  /** Scoped to `roles`. */
  readonly metrics: Metrics;
  readonly log: Log;
}

/** The workers of this process, as a unit. */
export interface Workers {
  /** Errors: the first error of a worker that does not start. */
  start(): Promise<void>;
  /** Errors: ROLE_SILENT or ROLE_ENDED, with the role. */
  ping(): Promise<void>;
  /** The checks of all workers, prefixed with their role, and whether each worker answers. */
  checks(): Promise<readonly CheckResult[]>;
  /** Metrics of the workers that answer within a second. */
  metrics(): Promise<readonly { readonly role: string; readonly families: readonly MetricFamily[] }[]>;
  /** All workers or none: if one refuses, the others go back to `before`. Errors: PLUGIN_RELOAD_REFUSED, ROLE_SILENT. */
  takeConfig(next: ConfigValues, before: ConfigValues): Promise<void>;
  /** Drains all workers within the time limit of drains. Never rejects. */
  drain(): Promise<void>;
  /** Stops and terminates the workers, each within the time limit. Never rejects; runs once. */
  stop(): Promise<void>;
  /** Resolves with the error that ended or disabled a worker. */
  readonly failed: Promise<unknown>;
}

const PING_TIMEOUT_MS = 10_000;
/** Above the time limit of a single check. */
const CHECKS_TIMEOUT_MS = 2_500;
const METRICS_TIMEOUT_MS = 1_000;
const RELOAD_TIMEOUT_MS = 30_000;
/** Added to the time limit of a command for the way to the thread and back. */
const WAY_MS = 1_000;

export function createWorkers({ handles, lifecycle, metrics, log }: WorkersOptions): Workers {
  const silent = metrics.counter('unanswered_total', 'commands that a worker did not answer', ['role', 'command']);
  let stopping: Promise<void> | null = null;
  /** Until then a worker loads its modules and answers nothing. */
  let isStarted = false;

  /** Returns the error if the worker does not answer. Silence is logged and counted; the end of a worker is intended, or ends the daemon. */
  async function tryAsk<D extends keyof WorkerCommands>(
    worker: WorkerHandle,
    command: D,
    timeoutMs: number,
    ...args: Parameters<WorkerCommands[D]>
  ) {
    try {
      return { value: await worker.ask(command, timeoutMs, ...args) };
    } catch (error) {
      if (hasEnded(error)) return { error };
      silent.with(worker.name, command).add();
      log.warn({ worker: worker.name, command, code: codeOf(error), error: messageOf(error) }, 'a role did not answer');
      return { error };
    }
  }

  async function checksOf(worker: WorkerHandle): Promise<readonly CheckResult[]> {
    const { name: role } = worker;
    if (!isStarted) return [{ name: `role ${role}`, ok: false, detail: 'starts' }];
    const found = await tryAsk(worker, 'checks', CHECKS_TIMEOUT_MS);
    if (!('value' in found)) return [{ name: `role ${role}`, ok: false, detail: whyNot(found.error) }];
    const own = (found.value as readonly CheckResult[]).map((check) => ({ ...check, name: `${role}: ${check.name}` }));
    return [{ name: `role ${role}`, ok: true, detail: 'answers' }, ...own];
  }

  async function stopOne(worker: WorkerHandle): Promise<void> {
    await tryAsk(worker, 'stop', lifecycle.stopTimeoutMs + WAY_MS);
    await worker
      .end()
      .catch((error: unknown) => log.error({ worker: worker.name, error: messageOf(error) }, 'not ended'));
  }

  return {
    async start() {
      await Promise.all(handles.map((worker) => worker.ask('start', null)));
      isStarted = true;
    },
    async ping() {
      await Promise.all(handles.map((worker) => worker.ask('ping', PING_TIMEOUT_MS)));
    },
    checks: async () => (await Promise.all(handles.map(checksOf))).flat(),
    async metrics() {
      if (!isStarted) return [];
      const answers = await Promise.all(
        handles.map(async (worker) => ({ worker, found: await tryAsk(worker, 'metrics', METRICS_TIMEOUT_MS) })),
      );
      return answers.flatMap(({ worker, found }) =>
        'value' in found ? [{ role: worker.name, families: found.value as readonly MetricFamily[] }] : [],
      );
    },
    async takeConfig(next, before) {
      const asked: WorkerHandle[] = [];
      for (const worker of handles) {
        asked.push(worker);
        try {
          await worker.ask('takeConfig', RELOAD_TIMEOUT_MS, next);
        } catch (error) {
          // A worker that refused has changed nothing; a silent one may have.
          const changed = asked.filter((other) => other !== worker || codeOf(error) === 'ROLE_SILENT');
          for (const other of changed.toReversed()) await tryAsk(other, 'takeConfig', RELOAD_TIMEOUT_MS, before);
          throw refusedBy(worker.name, error);
        }
      }
    },
    async drain() {
      await Promise.all(handles.map((worker) => tryAsk(worker, 'drain', lifecycle.drainTimeoutMs + WAY_MS)));
    },
    stop() {
      // Concurrently: after the drain no worker waits for another, and the service manager limits the stop time.
      stopping ??= Promise.all(handles.map(stopOne)).then(() => undefined);
      return stopping;
    },
    failed: handles.length === 0 ? new Promise(() => undefined) : Promise.race(handles.map(({ failed }) => failed)),
  };
}

function refusedBy(role: string, error: unknown): CodedError {
  return new CodedError(
    'PLUGIN_RELOAD_REFUSED',
    `the role ${role} refused the new configuration: ${messageOf(error)}`,
    {
      cause: error,
      facts: { role, code: codeOf(error) ?? null },
    },
  );
}

const hasEnded = (error: unknown): boolean => /^ROLE_(ENDED|CRASHED)$/.test(codeOf(error) ?? '');

const whyNot = (error: unknown) => (codeOf(error) === 'ROLE_SILENT' ? 'does not answer' : 'has ended');

/** Metrics of one thread of a daemon. */
interface MetricPart {
  /** Value of the label `role` of every sample; null (main thread): no label. */
  readonly role: string | null;
  readonly families: readonly MetricFamily[];
}

/** Prometheus text of several threads: each metric has one HELP and TYPE, and the samples of all threads. */
export function renderMetrics(parts: readonly MetricPart[]): Promise<string> {
  const merged = new Map<
    string,
    { readonly family: MetricFamily; readonly values: MetricFamily['values'][number][] }
  >();
  for (const { role, families } of parts) {
    for (const family of families) {
      let known = merged.get(family.name);
      if (known === undefined) {
        known = { family, values: [] };
        merged.set(family.name, known);
      }
      for (const value of family.values) {
        known.values.push(role === null ? value : { ...value, labels: { ...value.labels, role } });
      }
    }
  }
  return metricsText([...merged.values()].map(({ family, values }) => ({ ...family, values })));
}
