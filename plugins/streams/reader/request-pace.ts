import type { Clock } from '../../../src/plugin/plugin.ts';

/** Small requests, such as answers to pings, need no token at this pace; a few may come at once. */
const SMALL_REQUEST_BYTES = 1_024;
const SMALL_REQUEST_MS = 1_000;
const SMALL_REQUEST_BURST_MS = 10_000;
/** Bytes of a request per token of the rate; the first ones are paid with the request itself. */
const BYTES_A_TOKEN = 65_536;

export interface RequestPace {
  /** Before more of a request is received or unpacked, whatever becomes of it. Errors: those of `demandRate`. */
  payForSize(bytes: number): void;
  /** A request is complete. The first one has paid with the call. Errors: those of `demandRate`. */
  payRequest(bytes: number): void;
}

/** What the requests of one call cost of the rate. `demandRate` takes tokens. */
export function createRequestPace(clock: Clock, demandRate: (tokens: number) => void): RequestPace {
  let smallFromMs = clock.monotonic() - SMALL_REQUEST_BURST_MS;
  let hasRequest = false;
  /** Tokens that were taken for the size of the request that is being received. */
  let sizeTokens = 0;
  return {
    payForSize(bytes) {
      const due = Math.ceil(bytes / BYTES_A_TOKEN) - 1;
      if (due <= sizeTokens) return;
      const tokens = due - sizeTokens;
      sizeTokens = due;
      demandRate(tokens);
    },
    payRequest(bytes) {
      const isFirst = !hasRequest;
      hasRequest = true;
      sizeTokens = 0;
      if (isFirst) return;
      if (bytes > SMALL_REQUEST_BYTES) {
        demandRate(1);
        return;
      }
      const now = clock.monotonic();
      const nextMs = Math.max(smallFromMs, now - SMALL_REQUEST_BURST_MS) + SMALL_REQUEST_MS;
      if (nextMs <= now) smallFromMs = nextMs;
      else demandRate(1);
    },
  };
}
