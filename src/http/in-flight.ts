import { Bag } from '../lib/bag.ts';
import type { Counter, Gauge } from '../ports/telemetry.ts';
import { noRoom } from './body.ts';
import type { Exchange } from './exchange.ts';

/** The requests in flight. */
export interface InFlight {
  readonly count: number;
  /** Busy requests: their body has arrived and their answer is not ready. */
  readonly busy: number;
  /** Requests since the start. */
  readonly total: number;
  /** Bytes of bodies that are being received, or belong to requests in flight. */
  readonly bodyBytes: number;
  /** Counts received body bytes. Throws RequestError 503 or GateRefusal, and counts nothing, if they exceed a limit. */
  takeBytes(exchange: Exchange, bytes: number): void;
  enter(exchange: Exchange): void;
  leave(exchange: Exchange): void;
  /** Sets whether a request is busy; initially it is. Waiting for a slow client is not busy. */
  setBusy(exchange: Exchange, busy: boolean): void;
  /** Aborts the signals of all requests. */
  abortAll(reason: string): void;
  /** Resolves when no request is left, or when the signal aborts. */
  idle(signal: AbortSignal): Promise<void>;
}

export function createInFlight(gauge: Gauge, maxBodyBytes: () => number, refused: Counter): InFlight {
  const exchanges = new Bag<Exchange>();
  const waiters = new Set<() => void>();
  let total = 0;
  let busyCount = 0;
  let bodyBytes = 0;
  const setBusy = (exchange: Exchange, busy: boolean) => {
    if (exchange.busy === busy || (busy && exchange.place < 0)) return;
    exchange.busy = busy;
    busyCount += busy ? 1 : -1;
  };
  return {
    get busy() {
      return busyCount;
    },
    setBusy,
    get count() {
      return exchanges.size;
    },
    get total() {
      return total;
    },
    get bodyBytes() {
      return bodyBytes;
    },
    takeBytes: (exchange, bytes) => {
      // Bytes that arrive after the end would never be released.
      if (exchange.place < 0) return;
      try {
        // Without budgets per project, one limit applies to all bodies.
        if (exchange.tenant === undefined && bodyBytes + bytes > maxBodyBytes()) throw noRoom();
        exchange.holdBody(bytes);
      } catch (error) {
        refused.add();
        throw error;
      }
      bodyBytes += bytes;
    },
    enter: (exchange) => {
      total += 1;
      exchanges.add(exchange);
      setBusy(exchange, true);
      gauge.set(exchanges.size);
    },
    leave: (exchange) => {
      exchanges.remove(exchange);
      bodyBytes -= exchange.bodyBytes;
      exchange.giveBack();
      setBusy(exchange, false);
      gauge.set(exchanges.size);
      if (exchanges.size === 0) for (const wake of waiters) wake();
    },
    abortAll: (reason) => {
      for (const exchange of exchanges.all()) exchange.lazy.abort(reason);
    },
    idle: (signal) => {
      if (exchanges.size === 0 || signal.aborted) return Promise.resolve();
      return new Promise((resolve) => {
        const wake = () => {
          waiters.delete(wake);
          signal.removeEventListener('abort', wake);
          resolve();
        };
        waiters.add(wake);
        signal.addEventListener('abort', wake, { once: true });
      });
    },
  };
}
