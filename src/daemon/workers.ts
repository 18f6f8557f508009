import type { CoreConfig } from '../config/core.ts';
import { CodedError, codeOf, messageOf } from '../lib/coded-error.ts';
import type { Clock } from '../ports/clock.ts';
import type {
  ApiProcess,
  CheckResult,
  ConfigValues,
  MetricFamily,
  WorkerCommands,
  WorkerHandle,
} from '../ports/processes.ts';
import type { Log, Metrics } from '../ports/telemetry.ts';
import { metricsText } from '../runtime/metrics.ts';
import { backoffMs } from '../runtime/waiting.ts';

interface WorkersOptions {
  /** Threads: the end of one ends the daemon. */
  readonly handles: readonly WorkerHandle[];
  /** They are started again when they end. */
  readonly apiProcesses?: readonly ApiProcess[];
  /** Gives the listeners to processes of the API that have started. */
  readonly share?: (processes: readonly ApiProcess[]) => Promise<void>;
  readonly clock: Clock;
  readonly lifecycle: CoreConfig['lifecycle'];
  /** Scoped to `roles`. */
  readonly metrics: Metrics;
  readonly log: Log;
}

/** The workers of this process, as a unit. */
export interface Workers {
  /** Errors: the first error of a worker that does not start. */
  start(): Promise<void>;
  /** Lets the processes of the API accept connections. */
  listen(): Promise<void>;
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

/** Ends of one process of the API within the time below; with more, the daemon ends, for its service manager to decide. */
const MAX_ENDS = 5;
const ENDS_MS = 60_000;
const RESTART_BACKOFF = { firstMs: 100, longestMs: 5_000 };

export function createWorkers(options: WorkersOptions): Workers {
  const { apiProcesses = [], share = async () => undefined, lifecycle, metrics, clock, log } = options;
  const handles: readonly WorkerHandle[] = [...options.handles, ...apiProcesses];
  const restarts = metrics.counter('restarts_total', 'processes of the API that were started again', ['role']);
  const ending = new AbortController();
  /** Processes of the API that have ended and do not serve again yet. */
  const down = new Set<WorkerHandle>();
  /** Configuration of the last reload; null: none yet. */
  let latest: ConfigValues | null = null;
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
    // The others serve meanwhile.
    if (down.has(worker)) return [{ name: `role ${role}`, ok: false, detail: 'starts again', required: false }];
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

  const up = () => handles.filter((worker) => !down.has(worker));

  async function startAgain(worker: ApiProcess): Promise<void> {
    worker.restart();
    await worker.ask('start', null);
    // Reloads did not reach it meanwhile.
    for (let taken: ConfigValues | null = null; taken !== latest; ) {
      taken = latest;
      if (taken !== null) await worker.ask('takeConfig', RELOAD_TIMEOUT_MS, taken);
    }
    down.delete(worker);
    await share([worker]);
  }

  /** Returns with the reason to end the daemon. */
  async function keepAlive(worker: ApiProcess): Promise<unknown> {
    const ends: number[] = [];
    for (;;) {
      const reason = await worker.failed;
      if (ending.signal.aborted) return await new Promise(() => undefined);
      // What it reports itself concerns all: the store holds another chain, or a newer schema.
      if (!hasEnded(reason) || !isStarted) return reason;
      const nowMs = clock.monotonic();
      ends.push(nowMs);
      while (nowMs - (ends[0] ?? nowMs) > ENDS_MS) ends.shift();
      if (ends.length > MAX_ENDS) return reason;
      down.add(worker);
      restarts.with(worker.name).add();
      log.error({ worker: worker.name, error: messageOf(reason) }, 'a process of the API ended; it is started again');
      await clock.sleep(backoffMs(ends.length, null, RESTART_BACKOFF), ending.signal).catch(() => undefined);
      if (ending.signal.aborted) continue;
      try {
        await startAgain(worker);
        log.info({ worker: worker.name }, 'the process of the API serves again');
      } catch (error) {
        if (!hasEnded(error)) return error;
      }
    }
  }

  return {
    async start() {
      await Promise.all(handles.map((worker) => worker.ask('start', null)));
      isStarted = true;
    },
    listen: () => share(apiProcesses),
    async ping() {
      await Promise.all(up().map((worker) => worker.ask('ping', PING_TIMEOUT_MS)));
    },
    checks: async () => (await Promise.all(handles.map(checksOf))).flat(),
    async metrics() {
      if (!isStarted) return [];
      const answers = await Promise.all(
        up().map(async (worker) => ({ worker, found: await tryAsk(worker, 'metrics', METRICS_TIMEOUT_MS) })),
      );
      return answers.flatMap(({ worker, found }) =>
        'value' in found ? [{ role: worker.name, families: found.value as readonly MetricFamily[] }] : [],
      );
    },
    async takeConfig(next, before) {
      const asked: WorkerHandle[] = [];
      latest = next;
      for (const worker of up()) {
        asked.push(worker);
        try {
          await worker.ask('takeConfig', RELOAD_TIMEOUT_MS, next);
        } catch (error) {
          latest = before;
          // A worker that refused has changed nothing; a silent one may have.
          const changed = asked.filter((other) => other !== worker || codeOf(error) === 'ROLE_SILENT');
          for (const other of changed.toReversed()) await tryAsk(other, 'takeConfig', RELOAD_TIMEOUT_MS, before);
          throw refusedBy(worker.name, error);
        }
      }
    },
    async drain() {
      ending.abort(new Error('the daemon stops'));
      await Promise.all(handles.map((worker) => tryAsk(worker, 'drain', lifecycle.drainTimeoutMs + WAY_MS)));
    },
    stop() {
      // Concurrently: after the drain no worker waits for another, and the service manager limits the stop time.
      ending.abort(new Error('the daemon stops'));
      stopping ??= Promise.all(handles.map(stopOne)).then(() => undefined);
      return stopping;
    },
    failed:
      handles.length === 0
        ? new Promise(() => undefined)
        : Promise.race([...options.handles.map(({ failed }) => failed), ...apiProcesses.map(keepAlive)]),
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
