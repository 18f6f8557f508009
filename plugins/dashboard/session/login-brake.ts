import type { Clock } from '../../../src/kernel/plugin.ts';
import { createLru } from '../../../src/lib/lru.ts';

/** Bounds guessing. */
export interface LoginBrake {
  /** Seconds to wait before the next try; 0: go. */
  waitS(address: string): number;
  failed(address: string): void;
  /** The last one was right after all. */
  forgive(address: string): void;
}

interface Failures {
  count: number;
  readonly endsMs: number;
}

const MINUTE_MS = 60_000;
const MAX_ADDRESSES = 10_000;
const ALL = '*';
/** Of all addresses together. */
const FACTOR = 10;

/** Counts wrong logins of each client address, and of all together, by the minute. */
export function createLoginBrake(clock: Clock, perMinute: number): LoginBrake {
  const byAddress = createLru<string, Failures>({ max: MAX_ADDRESSES });
  const of = (address: string): Failures => {
    const known = byAddress.get(address);
    if (known !== undefined && clock.monotonic() < known.endsMs) return known;
    const fresh = { count: 0, endsMs: clock.monotonic() + MINUTE_MS };
    byAddress.set(address, fresh);
    return fresh;
  };
  const left = ({ count, endsMs }: Failures, limit: number): number =>
    count < limit ? 0 : Math.max(1, Math.ceil((endsMs - clock.monotonic()) / 1_000));
  return {
    waitS: (address) => Math.max(left(of(address), perMinute), left(of(ALL), perMinute * FACTOR)),
    failed(address) {
      of(address).count += 1;
      of(ALL).count += 1;
    },
    forgive(address) {
      for (const failures of [of(address), of(ALL)]) failures.count = Math.max(0, failures.count - 1);
    },
  };
}
