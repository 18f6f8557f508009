/**
 * A token bucket of one rate group of one project. It begins full, is filled continuously and may be overdrawn by a batch. What other
 * processes took is learnt later and taken out then.
 */
export interface Bucket {
  tokens: number;
  /** Monotonic milliseconds of the last filling. */
  atMs: number;
  ratePerSecond: number;
  capacity: number;
  /** Tokens that found no room since the last look at the others: theirs come out of these first. */
  overflow: number;
  /** Taken here and not told to the others. */
  untold: number;
  /** What all processes together had taken at the last look; null before the first. */
  seen: number | null;
}

/** The smallest bucket holds one token, or a rate below one per second would never let a call pass. */
function capacityOf(ratePerSecond: number, burstFactor: number): number {
  return Math.max(1, ratePerSecond * burstFactor);
}

export function createBucket(ratePerSecond: number, burstFactor: number, nowMs: number): Bucket {
  const capacity = capacityOf(ratePerSecond, burstFactor);
  return { tokens: capacity, atMs: nowMs, ratePerSecond, capacity, overflow: 0, untold: 0, seen: null };
}

/** Takes another rate from now on; what is in the bucket stays, as far as there is room. */
export function resize(bucket: Bucket, ratePerSecond: number, burstFactor: number): void {
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
  bucket.untold += count;
}

/**
 * `all` is what all processes have ever taken, `told` what of it was told by this one since the last look. The difference was taken by
 * the others; tokens that overflowed here in the meantime are those that they used.
 */
export function learn(bucket: Bucket, all: number, told: number): void {
  const others = bucket.seen === null ? 0 : Math.max(0, all - bucket.seen - told);
  bucket.seen = all;
  bucket.tokens -= Math.max(0, others - bucket.overflow);
  bucket.overflow = 0;
}

/** Whole seconds until the next call may pass; at least 1. */
export function waitS(bucket: Bucket): number {
  return Math.max(1, Math.ceil((1 - bucket.tokens) / bucket.ratePerSecond));
}
