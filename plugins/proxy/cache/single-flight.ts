/** Runs work once for all who ask for it at the same time. */
export interface SingleFlight<T> {
  /**
   * The first caller of a key starts `work`, the others wait for the same outcome. A caller whose signal aborts leaves with the
   * signal's reason; the work is aborted when all of them have left.
   */
  run(key: string, signal: AbortSignal, work: (signal: AbortSignal) => Promise<T>): Promise<Flown<T>>;
  readonly size: () => number;
}

export interface Flown<T> {
  readonly value: T;
  /** Whether this caller started the work: of a value that only one can consume it is the one. */
  readonly first: boolean;
}

interface Flight<T> {
  readonly promise: Promise<T>;
  readonly controller: AbortController;
  waiting: number;
}

export function createSingleFlight<T>(): SingleFlight<T> {
  const flights = new Map<string, Flight<T>>();

  function start(key: string, work: (signal: AbortSignal) => Promise<T>): Flight<T> {
    const controller = new AbortController();
    const promise = work(controller.signal).finally(() => {
      if (flights.get(key) === flight) flights.delete(key);
    });
    // Everybody may have left; the rejection is then nobody's.
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
