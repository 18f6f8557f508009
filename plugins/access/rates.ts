import { createLru } from '../../src/lib/lru.ts';
import { type Clock, GateRefusal } from '../../src/plugin/plugin.ts';
import type { ApiPeers } from '../../src/ports/processes.ts';
import { networkOf } from '../../src/runtime/network-address.ts';
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
): Headers | GateRefusal {
  let scarcest: Bucket | null = null;
  let empty: Bucket | null = null;
  for (const group of demand.groups) {
    const bucket = bucketOf(buckets, limits, group, time.nowMs);
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
    if (bucket !== undefined && limits.ratePerSecond.has(group)) take(bucket, demand.counts?.get(group) ?? 1);
  }
  return headersOf(scarcest, time.unixMs);
}

/** Takes tokens that nothing refuses. */
export function overdraw(
  buckets: Buckets,
  limits: RateLimits,
  group: string,
  tokens: number,
  { nowMs }: { readonly nowMs: number },
): void {
  const bucket = bucketOf(buckets, limits, group, nowMs);
  if (bucket === null) return;
  fill(bucket, nowMs);
  take(bucket, tokens);
}

/** Null: the group has no limit. */
function bucketOf(buckets: Buckets, limits: RateLimits, group: string, nowMs: number): Bucket | null {
  const rate = limits.ratePerSecond.get(group);
  if (rate === undefined) return null;
  const known = buckets.get(group);
  if (known === undefined) {
    const made = createBucket(rate, limits.burstFactor, nowMs);
    buckets.set(group, made);
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
  /** Total taken by all processes at the last read; null before the first. */
  seen: number | null;
}

/** A bucket holds at least one token, or a rate below one per second would never admit a call. */
function capacityOf(ratePerSecond: number, burstFactor: number): number {
  return Math.max(1, ratePerSecond * burstFactor);
}

export function createBucket(ratePerSecond: number, burstFactor: number, nowMs: number): Bucket {
  const capacity = capacityOf(ratePerSecond, burstFactor);
  return { tokens: capacity, atMs: nowMs, ratePerSecond, capacity, overflow: 0, unwritten: 0, seen: null };
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
  const others = bucket.seen === null ? 0 : Math.max(0, all - bucket.seen - written);
  bucket.seen = all;
  bucket.tokens -= Math.max(0, others - bucket.overflow);
  bucket.overflow = 0;
}

/** Owner of a set of buckets: a project, or a client address without a key. */
export interface RateOwner {
  readonly projectId: string;
  readonly network: string | null;
}

/** Rates of a daemon with several processes of the API: the main process has the buckets, and the others ask it. */
export interface RateLoan {
  /** Takes tokens like `takeTokens`. Asks the main process unless an advance suffices. */
  take(owner: RateOwner, limits: RateLimits, demand: Demand): Headers | GateRefusal | Promise<Headers | GateRefusal>;
  /** Like `take`, for work that cannot wait: refused only if the last answer of the main process refuses it. */
  takeNow(owner: RateOwner, limits: RateLimits, demand: Demand): Headers | GateRefusal;
  /** Takes tokens without a check (the bucket may go below zero), in the main process. */
  overdraw(owner: RateOwner, group: string, tokens: number): void;
  stop(): void;
}

/** Where the main process finds buckets; null: the owner does not exist. */
export type FindBuckets = (owner: RateOwner) => Promise<{
  readonly buckets: Buckets;
  readonly limits: RateLimits;
  /** To be called when tokens were taken. */
  taken(): void;
} | null>;

/** A bucket with less than this has no advance: there every call is counted where it is decided. */
const MIN_FOR_ADVANCE = 100;
/** All advances of a bucket are at most about one eighth of it. */
const ADVANCE_PART = 8;
/** What is left of an advance goes back after this time. */
const ADVANCE_MS = 100;
/** Buckets that a process keeps the last answer of. */
const MAX_LOANS = 50_000;

/** A question of a further process; `back` returns tokens of advances that were not used; below zero they are taken. */
type RateQuestion =
  | { readonly owner: RateOwner; readonly groups: readonly (readonly [string, number])[] }
  | { readonly back: readonly { readonly owner: RateOwner; readonly group: string; readonly tokens: number }[] };

/** The buckets after it, and the refusal if there is one. */
interface RateAnswer {
  readonly groups: readonly (readonly [group: string, tokens: number, advance: number])[];
  readonly refusal: { readonly retryAfterS: number; readonly headers: Headers } | null;
  readonly headers: Headers;
}

/** Rates in the main process: answers the others. */
export function lendRates(
  { answer, count }: Pick<ApiPeers, 'answer' | 'count'>,
  clock: Clock,
  find: FindBuckets,
): void {
  async function lend(owner: RateOwner, groups: readonly (readonly [string, number])[]): Promise<RateAnswer> {
    const found = await find(owner);
    if (found === null) return { groups: [], refusal: null, headers: {} };
    const { buckets, limits } = found;
    const demand = { groups: groups.map(([group]) => group), counts: new Map(groups) };
    const headers = takeTokens(buckets, limits, demand, { nowMs: clock.monotonic(), unixMs: clock.now() });
    const isRefused = headers instanceof GateRefusal;
    const after = demand.groups.flatMap((group): RateAnswer['groups'] => {
      const bucket = buckets.get(group);
      if (bucket === undefined) return [];
      const isFull = !isRefused && bucket.tokens >= MIN_FOR_ADVANCE;
      const advance = isFull ? Math.floor(bucket.tokens / (ADVANCE_PART * (count - 1))) : 0;
      take(bucket, advance);
      return [[group, bucket.tokens, advance]];
    });
    found.taken();
    if (!isRefused) return { groups: after, refusal: null, headers };
    const { retryAfterS = 1, headers: shown = {} } = headers;
    return { groups: after, refusal: { retryAfterS, headers: shown }, headers: {} };
  }
  answer('rates', async (message) => {
    const question = message as RateQuestion;
    if ('owner' in question) return await lend(question.owner, question.groups);
    for (const { owner, group, tokens } of question.back) {
      const bucket = (await find(owner))?.buckets.get(group);
      if (bucket !== undefined) take(bucket, -tokens);
    }
    return null;
  });
}

/** What a further process knows of a bucket of the main process. */
interface BorrowedBucket {
  readonly owner: RateOwner;
  readonly group: string;
  /** Last state that the main process reported; the advance is included. */
  readonly bucket: Bucket;
  advance: number;
  /** Whether the advance was used since the last look. */
  isUsed: boolean;
}

/** Rates in a further process of the API. */
export function borrowRates({ askMain }: Pick<ApiPeers, 'askMain'>, clock: Clock): RateLoan {
  const loans = createLru<string, BorrowedBucket>({ max: MAX_LOANS });
  const advanced = new Set<BorrowedBucket>();
  let cancel: (() => void) | null = null;
  const bucketKey = ({ projectId, network }: RateOwner, group: string) => `${projectId} ${network ?? ''} ${group}`;

  /** Null: the main process has to be asked. */
  function takeHere(owner: RateOwner, limits: RateLimits, { groups, counts }: Demand): Headers | GateRefusal | null {
    const nowMs = clock.monotonic();
    const found: (readonly [BorrowedBucket, number])[] = [];
    let canTake = true;
    for (const group of groups) {
      if (!limits.ratePerSecond.has(group)) continue;
      const loan = loans.get(bucketKey(owner, group));
      if (loan === undefined) return null;
      fill(loan.bucket, nowMs);
      // The others may have taken more since, never less.
      if (loan.bucket.tokens < 1)
        return new GateRefusal('rate', {
          retryAfterS: waitS(loan.bucket),
          headers: headersOf(loan.bucket, clock.now()),
        });
      const count = counts?.get(group) ?? 1;
      canTake &&= loan.advance >= count;
      found.push([loan, count]);
    }
    if (!canTake) return null;
    let scarcest: Bucket | null = null;
    for (const [loan, count] of found) {
      loan.bucket.tokens -= count;
      loan.advance -= count;
      loan.isUsed = true;
      if (scarcest === null || loan.bucket.tokens < scarcest.tokens) scarcest = loan.bucket;
    }
    return scarcest === null ? NO_HEADERS : headersOf(scarcest, clock.now());
  }

  async function ask(owner: RateOwner, limits: RateLimits, { groups, counts }: Demand): Promise<Headers | GateRefusal> {
    const asked = groups.map((group) => [group, counts?.get(group) ?? 1] as const);
    const answered = (await askMain('rates', { owner, groups: asked } satisfies RateQuestion)) as RateAnswer;
    const nowMs = clock.monotonic();
    for (const [group, tokens, advance] of answered.groups) {
      const rate = limits.ratePerSecond.get(group);
      if (rate === undefined) continue;
      const name = bucketKey(owner, group);
      const before = loans.get(name)?.advance ?? 0;
      const bucket = createBucket(rate, limits.burstFactor, nowMs);
      const loan = { owner, group, bucket, advance: before + advance, isUsed: true };
      bucket.tokens = tokens + loan.advance;
      const earlier = loans.get(name);
      if (earlier !== undefined) advanced.delete(earlier);
      loans.set(name, loan);
      if (loan.advance > 0) advanced.add(loan);
    }
    if (advanced.size > 0) cancel ??= clock.timeout(ADVANCE_MS, giveBack);
    const { refusal, headers } = answered;
    return refusal === null ? headers : new GateRefusal('rate', refusal);
  }

  function giveBack(): void {
    cancel = null;
    const back: { owner: RateOwner; group: string; tokens: number }[] = [];
    for (const loan of advanced) {
      if (loan.isUsed && loan.advance > 0) {
        loan.isUsed = false;
        continue;
      }
      advanced.delete(loan);
      if (loan.advance > 0) back.push({ owner: loan.owner, group: loan.group, tokens: loan.advance });
      loan.advance = 0;
    }
    if (back.length > 0) void askMain('rates', { back } satisfies RateQuestion).catch(() => undefined);
    if (advanced.size > 0) cancel = clock.timeout(ADVANCE_MS, giveBack);
  }

  return {
    take: (owner, limits, demand) => takeHere(owner, limits, demand) ?? ask(owner, limits, demand),
    takeNow(owner, limits, demand) {
      const here = takeHere(owner, limits, demand);
      if (here !== null) return here;
      void ask(owner, limits, demand).catch(() => undefined);
      return NO_HEADERS;
    },
    overdraw(owner, group, tokens) {
      const loan = loans.get(bucketKey(owner, group));
      if (loan !== undefined) {
        loan.bucket.tokens -= tokens;
        // What is missing there must not be spent from an advance here.
        if (loan.bucket.tokens < 1 && loan.advance > 0) {
          void askMain('rates', {
            back: [{ owner, group, tokens: loan.advance - tokens }],
          } satisfies RateQuestion).catch(() => undefined);
          loan.advance = 0;
          return;
        }
      }
      void askMain('rates', { back: [{ owner, group, tokens: -tokens }] } satisfies RateQuestion).catch(
        () => undefined,
      );
    },
    stop: () => cancel?.(),
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
        waiting: 0,
        nextMs: 0,
        turn: Promise.resolve(),
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
