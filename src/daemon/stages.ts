import { CodedError, messageOf } from '../lib/coded-error.ts';
import type { Clock } from '../ports/clock.ts';
import type { Log } from '../ports/telemetry.ts';
import { EXIT } from '../runtime/errors.ts';

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
