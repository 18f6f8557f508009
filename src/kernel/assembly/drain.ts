import { messageOf } from '../../lib/coded-error.ts';
import type { Clock } from '../../ports/clock.ts';
import type { Log } from '../../ports/log.ts';

export interface DrainOptions {
  /** For all of it. */
  readonly timeoutMs: number;
  readonly clock: Clock;
  readonly log: Log;
}

/** One time limit for everything that finishes what it has begun. */
export interface Drain {
  /** Aborts at the end of the time. */
  readonly deadline: AbortSignal;
  /** Waits for work to be over, until the deadline. Never rejects. */
  wait(works: readonly Promise<unknown>[]): Promise<void>;
  /** Everything is closed: the time no longer matters. */
  end(): void;
}

/** The time begins to run at the first wait. */
export function createDrain({ timeoutMs, clock, log }: DrainOptions): Drain {
  const controller = new AbortController();
  let cancel: (() => void) | null = null;
  return {
    deadline: controller.signal,
    async wait(works) {
      cancel ??= clock.timeout(timeoutMs, () => controller.abort(new Error('the drain deadline has passed')));
      const late = new Promise<void>((resolve) => {
        if (controller.signal.aborted) resolve();
        controller.signal.addEventListener('abort', () => resolve(), { once: true });
      });
      const over = Promise.all(works).catch((error: unknown) => {
        log.error({ error: messageOf(error) }, 'drain failed');
      });
      await Promise.race([over, late]);
    },
    end: () => cancel?.(),
  };
}
