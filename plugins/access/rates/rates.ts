import { GateRefusal } from '../../../src/kernel/plugin.ts';
import type { Limits } from '../plans/limits.ts';
import { type Bucket, createBucket, fill, resize, take, waitS } from './bucket.ts';

export type Buckets = Map<string, Bucket>;

export type RateLimits = Pick<Limits, 'ratePerSecond' | 'burstFactor'>;

type Headers = Readonly<Record<string, string>>;

/** The groups that calls ask for, each once, and how often where that is more than once. */
export interface Demand {
  readonly groups: readonly string[];
  readonly counts: ReadonlyMap<string, number> | null;
}

const NO_HEADERS: Headers = {};

/**
 * Takes one token of every group that the calls name, as often as they name it, and gives the rate headers. One token in each group
 * is enough: a batch may overdraw. Refused calls take nothing; then the refusal is given back.
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
