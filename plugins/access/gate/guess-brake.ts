import { isIPv6 } from 'node:net';
import { type Clock, GateRefusal } from '../../../src/kernel/plugin.ts';
import { createLru } from '../../../src/lib/lru.ts';
import { type Bucket, createBucket, fill } from '../rates/bucket.ts';

/** Client addresses that are remembered. */
const MAX_ADDRESSES = 10_000;
/** Look-ups of one address that may wait for their turn; more are refused. */
const MAX_WAITING = 10;
const PAUSE_MS = 1_000;

interface Guesser {
  readonly bucket: Bucket;
  waiting: number;
  /** Monotonic milliseconds from which the next look-up may go. */
  nextMs: number;
}

/**
 * Slows those down who try keys. Whoever sent too many wrong ones has to wait a second for each key that this process does not know;
 * a good key that is not known yet is late then, and one that is known is not. IPv6 clients have a /64 to themselves.
 */
export interface GuessBrake {
  /** Before an unknown key is looked up: null to go on at once. Throws `rate` when too many wait. */
  pause(address: string): Promise<void> | null;
  failed(address: string): void;
}

export function createGuessBrake(clock: Clock, badKeysPerMinute: number, slowed: () => void): GuessBrake {
  const guessers = createLru<string, Guesser>({ max: MAX_ADDRESSES });

  async function wait(guesser: Guesser, ms: number): Promise<void> {
    guesser.waiting += 1;
    try {
      await clock.sleep(ms);
    } finally {
      guesser.waiting -= 1;
    }
  }

  return {
    pause(address) {
      const guesser = guessers.get(networkOf(address));
      if (guesser === undefined) return null;
      const nowMs = clock.monotonic();
      fill(guesser.bucket, nowMs);
      if (guesser.bucket.tokens >= 1) return null;
      slowed();
      const startMs = Math.max(nowMs + PAUSE_MS, guesser.nextMs);
      if (guesser.waiting >= MAX_WAITING)
        throw new GateRefusal('rate', { retryAfterS: Math.ceil((startMs - nowMs) / 1_000) });
      guesser.nextMs = startMs + PAUSE_MS;
      return wait(guesser, startMs - nowMs);
    },
    failed(address) {
      const name = networkOf(address);
      const nowMs = clock.monotonic();
      let guesser = guessers.get(name);
      if (guesser === undefined) {
        guesser = { bucket: createBucket(badKeysPerMinute / 60, 60, nowMs), waiting: 0, nextMs: 0 };
        guessers.set(name, guesser);
      }
      fill(guesser.bucket, nowMs);
      guesser.bucket.tokens = Math.max(0, guesser.bucket.tokens - 1);
    },
  };
}

/** The first four groups of an IPv6 address. */
function networkOf(address: string): string {
  if (!isIPv6(address)) return address;
  const [head = '', tail] = address.split('::');
  const left = head === '' ? [] : head.split(':');
  const right = tail === undefined || tail === '' ? [] : tail.split(':');
  const zeros = tail === undefined ? 0 : Math.max(0, 8 - left.length - right.length);
  return [...left, ...Array<string>(zeros).fill('0'), ...right].slice(0, 4).join(':');
}
