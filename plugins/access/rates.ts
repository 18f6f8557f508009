import { networkOf } from '../../src/lib/cidr.ts';
import { createLru } from '../../src/lib/lru.ts';
import { type Clock, GateRefusal } from '../../src/plugin/plugin.ts';
import type { OpenThreadLine } from '../../src/ports/thread-line.ts';
import type { Limits } from './plans.ts';

export type Buckets = Map<string, Bucket>;

export type RateLimits = Pick<Limits, 'ratePerSecond' | 'burstFactor'>;

type Headers = Readonly<Record<string, string>>;

/** The distinct groups of a set of calls, with their counts if a group occurs more than once. */
export interface Demand {
  readonly groups: readonly string[];
  readonly counts: ReadonlyMap<string, number> | null;
}

const NO_HEADERS: Headers = {};

/**
 * Takes one token of each group per call and returns the rate headers. One token in each group suffices: a batch may overdraw. If the
 * calls are refused, takes nothing and returns the refusal.
 */
export function takeTokens(
  buckets: Buckets,
  limits: RateLimits,
  demand: Demand,
  time: { readonly nowMs: number; readonly unixMs: number },
  sharing: Sharing | null = null,
): Headers | GateRefusal {
  let scarcest: Bucket | null = null;
  let empty: Bucket | null = null;
  for (const group of demand.groups) {
    const bucket = bucketOf(buckets, limits, group, time.nowMs, sharing);
    if (bucket === null) continue;
    fill(bucket, time.nowMs);
    if (scarcest === null || bucket.tokens < scarcest.tokens) scarcest = bucket;
    if (bucket.tokens < 1 && (empty === null || waitS(bucket) > waitS(empty))) empty = bucket;
  }
  if (empty !== null)
    return new GateRefusal('rate', { retryAfterS: waitS(empty), headers: headersOf(empty, time.unixMs) });
  if (scarcest === null) return NO_HEADERS;
  for (const group of demand.groups) {
    const bucket = buckets.get(group);
    if (bucket === undefined || !limits.ratePerSecond.has(group)) continue;
    const count = demand.counts?.get(group) ?? 1;
    take(bucket, count);
    sharing?.peers.took(`${sharing.owner} ${group}`, count, bucket.tokens);
  }
  return headersOf(scarcest, time.unixMs);
}

/** Null: the group has no limit. */
function bucketOf(
  buckets: Buckets,
  limits: RateLimits,
  group: string,
  nowMs: number,
  sharing: Sharing | null,
): Bucket | null {
  const rate = limits.ratePerSecond.get(group);
  if (rate === undefined) return null;
  const known = buckets.get(group);
  if (known === undefined) {
    const made = createBucket(rate, limits.burstFactor, nowMs);
    buckets.set(group, made);
    const left = sharing?.peers.join(`${sharing.owner} ${group}`, nowMs, (count) => {
      made.tokens -= count;
      made.heard += count;
    });
    if (left != null) made.tokens = Math.min(made.capacity, left.tokens + (left.ageMs / 1_000) * rate);
    return made;
  }
  if (known.ratePerSecond !== rate) {
    fill(known, nowMs);
    resize(known, rate, limits.burstFactor);
  }
  return known;
}

function headersOf({ tokens, capacity, ratePerSecond }: Bucket, unixMs: number): Headers {
  return {
    'x-ratelimit-limit': String(ratePerSecond),
    'x-ratelimit-remaining': String(Math.max(0, Math.floor(tokens))),
    'x-ratelimit-reset': String(Math.ceil(unixMs / 1_000 + (capacity - tokens) / ratePerSecond)),
  };
}

/**
 * Token bucket of one rate group of one project. It starts full, fills continuously and may be overdrawn by a batch. Tokens taken by other
 * processes are subtracted later, when they are known.
 */
export interface Bucket {
  tokens: number;
  /** Monotonic milliseconds of the last refill. */
  atMs: number;
  ratePerSecond: number;
  capacity: number;
  /** Tokens that overflowed since the last update from other processes; tokens taken by those are subtracted from these first. */
  overflow: number;
  /** Taken here and not yet written. */
  unwritten: number;
  /** Taken by other processes of this daemon, and not yet found in the store. */
  heard: number;
  /** Total taken by all processes at the last read; null before the first. */
  seen: number | null;
}

/** A bucket holds at least one token, or a rate below one per second would never admit a call. */
function capacityOf(ratePerSecond: number, burstFactor: number): number {
  return Math.max(1, ratePerSecond * burstFactor);
}

export function createBucket(ratePerSecond: number, burstFactor: number, nowMs: number): Bucket {
  const capacity = capacityOf(ratePerSecond, burstFactor);
  return { tokens: capacity, atMs: nowMs, ratePerSecond, capacity, overflow: 0, unwritten: 0, heard: 0, seen: null };
}

/** Changes the rate; the tokens in the bucket stay, up to the new capacity. */
function resize(bucket: Bucket, ratePerSecond: number, burstFactor: number): void {
  bucket.ratePerSecond = ratePerSecond;
  bucket.capacity = capacityOf(ratePerSecond, burstFactor);
  bucket.tokens = Math.min(bucket.tokens, bucket.capacity);
}

export function fill(bucket: Bucket, nowMs: number): void {
  const filled = bucket.tokens + ((nowMs - bucket.atMs) / 1_000) * bucket.ratePerSecond;
  bucket.atMs = nowMs;
  if (filled <= bucket.capacity) {
    bucket.tokens = filled;
    return;
  }
  bucket.overflow += filled - bucket.capacity;
  bucket.tokens = bucket.capacity;
}

export function take(bucket: Bucket, count: number): void {
  bucket.tokens -= count;
  bucket.unwritten += count;
}

/**
 * `all` is the total ever taken by all processes, `written` the part that this process has written since the last read. The rest was taken
 * by the others, first from the tokens that overflowed here.
 */
export function learn(bucket: Bucket, all: number, written: number): void {
  const found = bucket.seen === null ? 0 : Math.max(0, all - bucket.seen - written);
  const others = Math.max(0, found - bucket.heard);
  bucket.heard = bucket.seen === null ? 0 : Math.max(0, bucket.heard - found);
  bucket.seen = all;
  bucket.tokens -= Math.max(0, others - bucket.overflow);
  bucket.overflow = 0;
}

/** Whose buckets these are, and who else takes from them. */
interface Sharing {
  readonly owner: string;
  readonly peers: RatePeers;
}

/** The other processes of the API of this daemon: they hear within milliseconds what was taken here, long before it is in the store. */
export interface RatePeers {
  took(name: string, count: number, left: number): void;
  /**
   * `heard` is called with what others take from now on. Returns the tokens that they left at last, and how long ago; null: they have taken
   * nothing lately.
   */
  join(
    name: string,
    nowMs: number,
    heard: (count: number) => void,
  ): { readonly tokens: number; readonly ageMs: number } | null;
  close(): void;
}

/** Buckets that peers know of. */
const MAX_SHARED = 50_000;
const TELL_MS = 5;

/** Name, count, tokens left. */
type Taken = readonly [string, number, number];

export function createRatePeers(open: OpenThreadLine, clock: Clock): RatePeers {
  const listeners = createLru<string, (count: number) => void>({ max: MAX_SHARED });
  const last = createLru<string, { readonly tokens: number; readonly atMs: number }>({ max: MAX_SHARED });
  const untold = new Map<string, Taken>();
  let cancel: (() => void) | null = null;
  const line = open('rates', (message) => {
    for (const [name, count, tokens] of (message as { readonly taken: readonly Taken[] }).taken) {
      last.set(name, { tokens, atMs: clock.monotonic() });
      listeners.get(name)?.(count);
    }
  });
  const tell = () => {
    cancel = null;
    line.post({ taken: [...untold.values()] });
    untold.clear();
  };
  return {
    took(name, count, left) {
      untold.set(name, [name, count + (untold.get(name)?.[1] ?? 0), left]);
      cancel ??= clock.timeout(TELL_MS, tell);
    },
    join(name, nowMs, heard) {
      listeners.set(name, heard);
      const known = last.get(name);
      return known === undefined ? null : { tokens: known.tokens, ageMs: nowMs - known.atMs };
    },
    close() {
      cancel?.();
      line.close();
    },
  };
}

/** Whole seconds until the next call may pass; at least 1. */
function waitS(bucket: Bucket): number {
  return Math.max(1, Math.ceil((1 - bucket.tokens) / bucket.ratePerSecond));
}

/** A sliding window: at most so many calls in any span of its length, no burst. */
export interface SlidingWindow {
  /** Counts a call at `nowMs`. Returns false, without counting it, if the limit is reached. */
  take(nowMs: number): boolean;
}

export function createSlidingWindow(limit: number, lengthMs: number): SlidingWindow {
  const taken: number[] = [];
  return {
    take(nowMs) {
      // A call exactly one length ago is outside of the window.
      while (taken.length > 0 && nowMs - (taken[0] as number) >= lengthMs) taken.shift();
      if (taken.length >= limit) return false;
      taken.push(nowMs);
      return true;
    },
  };
}

/** Maximum number of tracked client addresses. */
const MAX_ADDRESSES = 10_000;
/** Maximum number of delayed answers to wrong keys, per address and in total; above it they are refused at once. */
const MAX_WAITING = 10;
const MAX_WAITING_ALL = 1_000;
const PAUSE_MS = 1_000;

interface Guesser {
  readonly bucket: Bucket;
  waiting: number;
  /** Monotonic milliseconds of the earliest next answer. */
  nextMs: number;
  /** The last look-up. */
  turn: Promise<unknown>;
}

/**
 * Slows down guessing of keys without affecting other clients of the same address: a valid key is always looked up and answered. After too
 * many wrong keys from an address, its further look-ups run one at a time, which bounds the load of the store, and its answers to wrong
 * keys are sent at one per second. IPv6 clients are counted by their /64.
 */
export interface GuessBrake {
  /** Runs the look-up of a key that is not cached. */
  look<T>(address: string, ask: () => Promise<T>): Promise<T>;
  /** For a wrong key: resolves when its answer may be sent. Throws `rate` if too many answers are waiting. */
  wrong(address: string): Promise<void>;
}

export function createGuessBrake(clock: Clock, badKeysPerMinute: () => number, slowed: () => void): GuessBrake {
  const guessers = createLru<string, Guesser>({ max: MAX_ADDRESSES });
  let waiting = 0;

  function guesserOf(address: string): Guesser {
    const name = networkOf(address);
    const nowMs = clock.monotonic();
    let guesser = guessers.get(name);
    if (guesser === undefined) {
      guesser = {
        bucket: createBucket(badKeysPerMinute() / 60, 60, nowMs),
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
