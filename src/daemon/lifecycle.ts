import type { CoreConfig } from '../config/core.ts';
import { CodedError, EXIT, messageOf } from '../lib/coded-error.ts';
import type { Clock } from '../ports/clock.ts';
import type { Log } from '../ports/telemetry.ts';
import { DeadlinePassed, withDeadline } from '../runtime/waiting.ts';
import type { ProvisionedPlugin } from './provision.ts';

/** Reactions to signals of the process. */
export interface SignalHandlers {
  /** First SIGTERM or SIGINT. */
  stop(signal: string): void;
  /** A second SIGTERM or SIGINT while the first is being handled. */
  force(signal: string): void;
  /** SIGHUP. */
  reload(): void;
}

/** The part of `process` that is needed; tests pass an EventEmitter. */
export interface SignalSource {
  on(signal: string, listener: () => void): unknown;
  off(signal: string, listener: () => void): unknown;
}

/** Installs the signal listeners; the returned function removes them. */
export function handleSignals(source: SignalSource, handlers: SignalHandlers): () => void {
  let stopping = false;
  const onStop = (signal: string) => () => {
    if (stopping) handlers.force(signal);
    else {
      stopping = true;
      handlers.stop(signal);
    }
  };
  const listeners: readonly (readonly [string, () => void])[] = [
    ['SIGTERM', onStop('SIGTERM')],
    ['SIGINT', onStop('SIGINT')],
    ['SIGHUP', () => handlers.reload()],
  ];
  for (const [signal, listener] of listeners) source.on(signal, listener);
  return () => {
    for (const [signal, listener] of listeners) source.off(signal, listener);
  };
}

/** One step of the start. `stop` undoes it; it is called only if `start` was, possibly twice. */
export interface Stage {
  readonly name: string;
  start(): Promise<void> | void;
  stop?(): Promise<void> | void;
}

export interface StageRunner {
  /** Runs all stages in order. A failure undoes the started ones in reverse and rejects with its error. */
  start(): Promise<void>;
  /** Undoes the started stages in reverse, once. Failures are logged and do not stop the others. */
  stop(): Promise<void>;
}

export function createStageRunner(stages: readonly Stage[], log: Log, clock: Clock): StageRunner {
  const started: Stage[] = [];
  let stopping: Promise<void> | null = null;

  async function undo(): Promise<void> {
    for (let stage = started.pop(); stage !== undefined; stage = started.pop()) {
      try {
        await stage.stop?.();
      } catch (error) {
        log.error({ stage: stage.name, error: messageOf(error) }, 'could not be stopped cleanly');
      }
    }
  }
  const stop = () => {
    stopping ??= undo();
    return stopping;
  };
  return {
    async start() {
      for (const stage of stages) {
        if (stopping !== null) throw stopped();
        const startedMs = clock.monotonic();
        started.push(stage);
        try {
          await stage.start();
        } catch (error) {
          await stop();
          throw error;
        }
        if (stopping !== null) {
          // `stop` ran before `start` had finished: close what was opened since.
          await stage.stop?.();
          throw stopped();
        }
        log.debug({ stage: stage.name, ms: Math.round(clock.monotonic() - startedMs) }, 'stage done');
      }
    },
    stop,
  };
}

const stopped = () =>
  new CodedError('DAEMON_STOPPED', 'the daemon was stopped while it started', { exitCode: EXIT.ok });

export interface LifecycleOptions {
  /** In the order of provisioning. */
  readonly plugins: readonly ProvisionedPlugin[];
  readonly clock: Clock;
  readonly log: Log;
  /** Read when they are needed. */
  readonly limits: CoreConfig['lifecycle'];
}

export interface Lifecycle {
  /**
   * Starts the plugins one after the other, each with its own time limit. A failure stops the started ones in reverse and rejects with
   * PLUGIN_START_FAILED or PLUGIN_START_TIMEOUT, which name the plugin.
   */
  start(): Promise<void>;
  /** Drains all plugins in reverse order: they accept no new work. */
  drain(): Promise<void>;
  /** Stops every plugin whose start was called, in reverse, under one deadline. Never rejects; runs once. */
  stop(): Promise<void>;
}

export function createLifecycle(options: LifecycleOptions): Lifecycle {
  const { plugins, clock, log } = options;
  const started: ProvisionedPlugin[] = [];
  const stopAsked = new AbortController();
  let starting: Promise<void> | null = null;
  let stopping: Promise<void> | null = null;

  async function startAll(): Promise<void> {
    for (const plugin of plugins) {
      if (stopAsked.signal.aborted)
        throw startFailed(plugin.id, stopAsked.signal.reason, options.limits.startTimeoutMs);
      started.push(plugin);
      try {
        await withDeadline(
          clock,
          options.limits.startTimeoutMs,
          (signal) => startOne(plugin, signal),
          stopAsked.signal,
        );
      } catch (error) {
        throw startFailed(plugin.id, error, options.limits.startTimeoutMs);
      }
      log.debug({ plugin: plugin.id }, 'plugin started');
    }
  }

  async function stopAll(): Promise<void> {
    stopAsked.abort(new CodedError('PLUGIN_START_FAILED', 'the daemon is stopping'));
    await starting?.catch(() => undefined);
    const deadline = new AbortController();
    const cancel = clock.timeout(options.limits.stopTimeoutMs, () =>
      deadline.abort(new DeadlinePassed(options.limits.stopTimeoutMs)),
    );
    for (const plugin of started.toReversed()) {
      await stopOne(plugin, deadline.signal).catch((error: unknown) => {
        log.error({ plugin: plugin.id, error: messageOf(error) }, 'plugin did not stop cleanly');
      });
    }
    cancel();
  }

  return {
    async start() {
      starting = startAll();
      try {
        await starting;
      } catch (error) {
        await this.stop();
        throw error;
      }
    },
    async drain() {
      const waits = started.toReversed().map(async ({ id, contribution }) => {
        await withDeadline(clock, options.limits.drainTimeoutMs, () => contribution.drain?.()).catch(
          (error: unknown) => {
            log.warn({ plugin: id, error: messageOf(error) }, 'plugin did not drain cleanly');
          },
        );
      });
      await Promise.all(waits);
    },
    stop() {
      stopping ??= stopAll();
      return stopping;
    },
  };
}

async function startOne({ contribution, pools }: ProvisionedPlugin, signal: AbortSignal): Promise<void> {
  for (const pool of pools) await pool.start();
  await contribution.start?.(signal);
}

/** Calls stop even if the deadline has passed, but then does not wait for it. */
async function stopOne({ contribution, pools }: ProvisionedPlugin, deadline: AbortSignal): Promise<void> {
  const work = (async () => {
    try {
      await contribution.stop?.(deadline);
    } finally {
      await Promise.all(pools.map((pool) => pool.stop()));
    }
  })();
  work.catch(() => undefined);
  let onAbort = () => {};
  const late = new Promise<never>((_, reject) => {
    // One turn of the event loop, so that a plugin that stops without waiting is not reported as late.
    onAbort = () => setImmediate(() => reject(deadline.reason as Error));
    if (deadline.aborted) onAbort();
    else deadline.addEventListener('abort', onAbort, { once: true });
  });
  try {
    await Promise.race([work, late]);
  } finally {
    deadline.removeEventListener('abort', onAbort);
  }
}

function startFailed(plugin: string, error: unknown, startTimeoutMs: number): CodedError {
  if (error instanceof DeadlinePassed) {
    return new CodedError('PLUGIN_START_TIMEOUT', `plugin ${plugin} did not start within ${startTimeoutMs} ms`, {
      exitCode: EXIT.temporary,
      facts: { plugin },
    });
  }
  const exitCode = error instanceof CodedError ? error.exitCode : undefined;
  return new CodedError('PLUGIN_START_FAILED', `plugin ${plugin} failed to start: ${messageOf(error)}`, {
    exitCode: exitCode ?? EXIT.bug,
    cause: error,
    facts: { plugin },
  });
}
