import { networkOf } from '../../../src/lib/cidr.ts';
import { createLru } from '../../../src/lib/lru.ts';
import { type Clock, GateRefusal } from '../../../src/plugin/plugin.ts';
import { type Bucket, createBucket, fill } from '../rates.ts';

/** Client addresses that are remembered. */
const MAX_ADDRESSES = 10_000;
/** Answers to wrong keys of one address, and of all together, that wait; more are refused at once. */
const MAX_WAITING = 10;
const MAX_WAITING_ALL = 1_000;
const PAUSE_MS = 1_000;

interface Guesser {
  readonly bucket: Bucket;
  waiting: number;
  /** Monotonic milliseconds from which the next answer may go. */
  nextMs: number;
  /** The last look-up. */
  turn: Promise<unknown>;
}

/**
 * Slows those down who try keys, and nobody else: many clients may share an address with them. A right key is always looked up and
 * answered. Once an address has sent too many wrong ones, its further look-ups run one after another, which bounds what they cost the
 * store, and its answers to wrong keys leave one per second. IPv6 clients are counted by their /64.
 */
export interface GuessBrake {
  /** Runs the look-up of a key that this process has not seen yet. */
  look<T>(address: string, ask: () => Promise<T>): Promise<T>;
  /** The key was wrong: resolves when its answer may leave. Throws `rate` when too many answers wait. */
  wrong(address: string): Promise<void>;
}

export function createGuessBrake(clock: Clock, badKeysPerMinute: number, slowed: () => void): GuessBrake {
  const guessers = createLru<string, Guesser>({ max: MAX_ADDRESSES });
  let waiting = 0;

  function guesserOf(address: string): Guesser {
    const name = networkOf(address);
    const nowMs = clock.monotonic();
    let guesser = guessers.get(name);
    if (guesser === undefined) {
      guesser = {
        bucket: createBucket(badKeysPerMinute / 60, 60, nowMs),
        ...{ waiting: 0, nextMs: 0, turn: Promise.resolve() },
      };
      guessers.set(name, guesser);
    }
    fill(guesser.bucket, nowMs);
    return guesser;
  }

  async function wait(guesser: Guesser): Promise<void> {
    const nowMs = clock.monotonic();
    const startMs = Math.max(nowMs + PAUSE_MS, guesser.nextMs);
    if (guesser.waiting >= MAX_WAITING || waiting >= MAX_WAITING_ALL)
      throw new GateRefusal('rate', { retryAfterS: Math.ceil((startMs - nowMs) / 1_000) });
    guesser.nextMs = startMs + PAUSE_MS;
    guesser.waiting += 1;
    waiting += 1;
    try {
      await clock.sleep(startMs - nowMs);
    } finally {
      guesser.waiting -= 1;
      waiting -= 1;
    }
  }

  return {
    look(address, ask) {
      const guesser = guessers.get(networkOf(address));
      if (guesser === undefined) return ask();
      fill(guesser.bucket, clock.monotonic());
      if (guesser.bucket.tokens >= 1) return ask();
      const answer = guesser.turn.then(ask);
      guesser.turn = answer.catch(() => undefined);
      return answer;
    },
    async wrong(address) {
      const guesser = guesserOf(address);
      if (guesser.bucket.tokens >= 1) {
        guesser.bucket.tokens -= 1;
        return;
      }
      slowed();
      await wait(guesser);
    },
  };
}
