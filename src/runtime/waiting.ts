import { Bag, type InBag } from '../lib/bag.ts';
import type { Clock, Random } from '../ports/clock.ts';
import type { CallSignal } from '../ports/upstream.ts';

/** Lets one loop sleep until something happens. A wake-up that comes while the loop is awake is not lost. */
export interface Wakeup {
  wake(): void;
  /** Resolves at the next `wake`, after `ms`, or when the signal aborts; at once if `wake` was called since the last sleep. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

export function createWakeup(clock: Clock): Wakeup {
  let isWoken = false;
  let rise: (() => void) | null = null;
  return {
    wake() {
      if (rise === null) isWoken = true;
      else rise();
    },
    sleep(ms, signal) {
      if (isWoken || signal?.aborted) {
        isWoken = false;
        return Promise.resolve();
      }
      return new Promise((resolve) => {
        const onAbort = () => rise?.();
        const cancel = clock.timeout(ms, onAbort);
        rise = () => {
          rise = null;
          cancel();
          signal?.removeEventListener('abort', onAbort);
          resolve();
        };
        signal?.addEventListener('abort', onAbort, { once: true });
      });
    },
  };
}

/**
 * Runs `work` at this interval until stopped, never concurrently: a long run delays the next one. Errors go to `onError`. The returned
 * function aborts the signal of `work` and resolves when a run in flight has ended.
 */
export function startEvery(
  clock: Clock,
  intervalMs: number,
  work: (signal: AbortSignal) => unknown,
  onError: (error: unknown) => void,
): () => Promise<void> {
  const controller = new AbortController();
  const { signal } = controller;
  const loop = async (): Promise<void> => {
    for (;;) {
      try {
        await clock.sleep(intervalMs, signal);
      } catch {
        return;
      }
      try {
        await work(signal);
      } catch (error) {
        if (!signal.aborted) onError(error);
      }
    }
  };
  const running = loop();
  return () => {
    controller.abort();
    return running;
  };
}

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

interface DeadlineEntry extends InBag {
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
  const entries = new Bag<DeadlineEntry>();
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
      const entry: DeadlineEntry = { at: clock.monotonic() + timeoutMs, expire, place: -1 };
      entries.add(entry);
      if (!armed) arm();
      return () => {
        entries.remove(entry);
      };
    },
  };
}

export interface BackoffOptions {
  /** Pause after the first failure; default 250 ms. */
  readonly firstMs?: number;
  /** Default 10 s. */
  readonly longestMs?: number;
  /** Random part of each pause, up or down; default 0.2. */
  readonly jitter?: number;
}

/** Pause after `failures` failed attempts: it doubles from `firstMs` up to `longestMs`. Without `random`: no jitter. */
export function backoffMs(
  failures: number,
  random: Pick<Random, 'float'> | null,
  { firstMs = 250, longestMs = 10_000, jitter = 0.2 }: BackoffOptions = {},
): number {
  const base = Math.min(longestMs, firstMs * 2 ** Math.min(Math.max(0, failures - 1), 40));
  return random === null ? base : base * (1 - jitter + 2 * jitter * random.float());
}

/**
 * `Retry-After` in either of its forms, seconds or an HTTP date, as milliseconds from `now` (unix milliseconds), at most `mostMs`.
 * Null when absent or malformed. Without `now` a date counts as absent.
 */
export function retryAfterMs(value: string | undefined, now: number | null, mostMs?: number): number | null {
  const text = value?.trim() ?? '';
  const atMost = (ms: number) => Math.min(ms, mostMs ?? ms);
  if (/^\d{1,15}(\.\d+)?$/.test(text)) return atMost(Number(text) * 1_000);
  // Only HTTP dates: the date parser accepts almost any text that contains a number.
  if (now === null || !/^(Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? /.test(text)) return null;
  const at = Date.parse(text);
  return Number.isNaN(at) ? null : atMost(Math.max(0, at - now));
}

/** Whether a value must be awaited; awaiting a plain value would cost a turn of the promise queue. */
export function isPromise<T>(value: T | Promise<T>): value is Promise<T> {
  return typeof value === 'object' && value !== null && typeof (value as { then?: unknown }).then === 'function';
}
