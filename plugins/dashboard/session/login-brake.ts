import { networkOf } from '../../../src/lib/cidr.ts';
import { createLru } from '../../../src/lib/lru.ts';
import { type Clock, RequestError } from '../../../src/plugin/plugin.ts';

/** Bounds guessing. */
export interface LoginBrake {
  /** Seconds until a wrong login of this address (IPv6: /64) is answered again; 0: it is. */
  waitS(address: string): number;
  failed(address: string): void;
  /**
   * Before a wrong login is answered: waits while there are too many of all addresses together. Only wrong ones wait, or strangers could
   * lock the operators out. Throws 429 when too many answers wait.
   */
  pause(): Promise<void>;
}

interface Failures {
  count: number;
  readonly endsMs: number;
}

const MINUTE_MS = 60_000;
const PAUSE_MS = 1_000;
const MAX_WAITING = 10;
const MAX_ADDRESSES = 10_000;
/** Of all addresses together. */
const FACTOR = 10;

/** Counts wrong logins of each client address, and of all together, by the minute. */
export function createLoginBrake(clock: Clock, perMinute: number): LoginBrake {
  const byAddress = createLru<string, Failures>({ max: MAX_ADDRESSES });
  let all: Failures = { count: 0, endsMs: 0 };
  let waiting = 0;
  /** Monotonic milliseconds from which the next answer may go. */
  let nextMs = 0;
  const fresh = (): Failures => ({ count: 0, endsMs: clock.monotonic() + MINUTE_MS });
  const isOver = ({ endsMs }: Failures): boolean => clock.monotonic() >= endsMs;
  const ofAll = (): Failures => {
    if (isOver(all)) all = fresh();
    return all;
  };
  const of = (address: string): Failures => {
    const name = networkOf(address);
    const known = byAddress.get(name);
    if (known !== undefined && !isOver(known)) return known;
    const made = fresh();
    byAddress.set(name, made);
    return made;
  };
  return {
    waitS(address) {
      const { count, endsMs } = of(address);
      return count < perMinute ? 0 : Math.max(1, Math.ceil((endsMs - clock.monotonic()) / 1_000));
    },
    failed(address) {
      of(address).count += 1;
      ofAll().count += 1;
    },
    async pause() {
      if (ofAll().count <= perMinute * FACTOR) return;
      if (waiting >= MAX_WAITING) throw new RequestError(429, 'Too many wrong logins', { retryAfterS: 1 });
      const nowMs = clock.monotonic();
      const startMs = Math.max(nowMs + PAUSE_MS, nextMs);
      nextMs = startMs + PAUSE_MS;
      waiting += 1;
      try {
        await clock.sleep(startMs - nowMs);
      } finally {
        waiting -= 1;
      }
    },
  };
}
