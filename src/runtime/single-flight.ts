/**
 * Runs work once for all concurrent callers of a key. Nothing is kept after the work has settled: the next caller starts it again, also after
 * a failure.
 */
export interface SingleFlight<K, T> {
  /**
   * The running work of the key; without any, `start` is called at once. All callers get its outcome. A rejection of work that nobody waits for
   * is not reported as unhandled.
   */
  run(key: K, start: () => Promise<T>): Promise<T>;
  /** The running work of a key; undefined: none runs. */
  get(key: K): Promise<T> | undefined;
  /** All running work. */
  all(): Iterable<Promise<T>>;
  /** Number of keys with running work. */
  size(): number;
}

export function createSingleFlight<K, T>(): SingleFlight<K, T> {
  const running = new Map<K, Promise<T>>();
  return {
    run(key, start) {
      const known = running.get(key);
      if (known !== undefined) return known;
      const work = start().finally(() => running.delete(key));
      work.catch(() => {});
      running.set(key, work);
      return work;
    },
    get: (key) => running.get(key),
    all: () => running.values(),
    size: () => running.size,
  };
}

/** Like `SingleFlight`, for work that ends when all its callers have left. */
interface AbortableFlight<T> {
  /**
   * The first caller of a key starts `work`, the others wait for its outcome. A caller whose signal aborts gets the
   * reason of the signal; the work is aborted when all callers are gone.
   */
  run(key: string, signal: AbortSignal, work: (signal: AbortSignal) => Promise<T>): Promise<Flown<T>>;
  readonly size: () => number;
}

interface Flown<T> {
  readonly value: T;
  /** Whether this caller started the work, and may consume a value that has only one consumer. */
  readonly first: boolean;
}

interface Flight<T> {
  readonly promise: Promise<T>;
  readonly controller: AbortController;
  waiting: number;
}

export function createAbortableFlight<T>(): AbortableFlight<T> {
  const flights = new Map<string, Flight<T>>();

  function start(key: string, work: (signal: AbortSignal) => Promise<T>): Flight<T> {
    const controller = new AbortController();
    const promise = work(controller.signal).finally(() => {
      if (flights.get(key) === flight) flights.delete(key);
    });
    // All callers may be gone; the rejection then has no handler.
    promise.catch(() => {});
    const flight: Flight<T> = { promise, controller, waiting: 0 };
    flights.set(key, flight);
    return flight;
  }

  async function run(key: string, signal: AbortSignal, work: (signal: AbortSignal) => Promise<T>): Promise<Flown<T>> {
    signal.throwIfAborted();
    const running = flights.get(key);
    const flight = running ?? start(key, work);
    flight.waiting++;
    let onAbort = () => {};
    const left = new Promise<never>((_, reject) => {
      onAbort = () => {
        reject(signal.reason as Error);
        if (flight.waiting > 1) return;
        if (flights.get(key) === flight) flights.delete(key);
        flight.controller.abort(signal.reason);
      };
    });
    signal.addEventListener('abort', onAbort, { once: true });
    try {
      return { value: await Promise.race([flight.promise, left]), first: running === undefined };
    } finally {
      flight.waiting--;
      signal.removeEventListener('abort', onAbort);
    }
  }

  return { run, size: () => flights.size };
}
