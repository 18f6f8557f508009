import { Bag, type InBag } from '../lib/bag.ts';
import type { Clock } from '../ports/clock.ts';
import type { CallSignal } from '../ports/upstream.ts';

/** Thrown by `withDeadline`; callers convert it to an error that names the late operation. */
export class DeadlinePassed extends Error {
  constructor(ms: number) {
    super(`not done after ${ms} ms`);
    this.name = 'DeadlinePassed';
  }
}

/**
 * Runs `work` and rejects with DeadlinePassed if it takes longer than `ms`; its signal then aborts, as it does when `parent` aborts. Work
 * that ignores the signal continues without being awaited.
 */
export async function withDeadline<T>(
  clock: Clock,
  ms: number,
  work: (signal: AbortSignal) => T | Promise<T>,
  parent?: AbortSignal,
): Promise<T> {
  const controller = new AbortController();
  const late = new DeadlinePassed(ms);
  return await new Promise<T>((resolve, reject) => {
    const give = (reason: unknown) => {
      controller.abort(reason);
      reject(reason as Error);
    };
    const onParent = () => give(parent?.reason);
    const cancel = clock.timeout(ms, () => give(late));
    const finish = () => {
      cancel();
      parent?.removeEventListener('abort', onParent);
    };
    parent?.addEventListener('abort', onParent, { once: true });
    if (parent?.aborted) onParent();
    // In a promise chain, so that a synchronous throw becomes a rejection.
    Promise.resolve()
      .then(() => work(controller.signal))
      .then(resolve, reject)
      .finally(finish);
  });
}

/** The result of work that cannot be canceled. Rejects with the signal's reason when it aborts; the work then continues unawaited. */
export function orAborted<T>(work: Promise<T>, signal: CallSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason as Error);
    if (signal.aborted) onAbort();
    signal.addEventListener('abort', onAbort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
  });
}

const TICK_MS = 100;

interface Entry extends InBag {
  readonly at: number;
  readonly expire: () => void;
}

export interface Deadlines {
  /** Calls `expire` once, up to 100 ms after `timeoutMs`; the returned function cancels. */
  watch(timeoutMs: number, expire: () => void): () => void;
}

/**
 * Many deadlines with one timer: a request costs an entry instead of a timer. The deadlines are not exact.
 */
export function createDeadlines(clock: Clock): Deadlines {
  const entries = new Bag<Entry>();
  let armed = false;

  const arm = () => {
    armed = true;
    clock.timeout(TICK_MS, sweep);
  };
  const sweep = () => {
    armed = false;
    const now = clock.monotonic();
    for (const entry of entries.all()) if (entry.at <= now && entries.remove(entry)) entry.expire();
    if (entries.size > 0 && !armed) arm();
  };

  return {
    watch: (timeoutMs, expire) => {
      const entry: Entry = { at: clock.monotonic() + timeoutMs, expire, place: -1 };
      entries.add(entry);
      if (!armed) arm();
      return () => {
        entries.remove(entry);
      };
    },
  };
}
