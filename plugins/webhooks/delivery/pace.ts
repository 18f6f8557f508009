import { LRUCache } from 'lru-cache';
import { lazy } from '../../../src/lib/lazy.ts';
import type { Clock } from '../../../src/ports/clock.ts';

export interface Pace {
  /** How many deliveries of a webhook may be under way at once now; 0 while its rate is used up. */
  concurrency(webhookId: string): number;
  /** A delivery starts. */
  started(webhookId: string): void;
  /** The receiver asked for less, or was too slow: one at a time until the next success. */
  throttle(webhookId: string): void;
  succeeded(webhookId: string): void;
}

export interface PaceOptions {
  readonly clock: Clock;
  readonly perWebhook: number;
  /** 0 = no limit. */
  readonly ratePerSecond: number;
}

interface Bucket {
  tokens: number;
  at: number;
}

/** Forgetting a webhook among so many costs nothing but one burst. */
const MAX_WEBHOOKS = 50_000;

/** Limits of sending to one webhook: deliveries at once, deliveries per second, and one at a time for a struggling receiver. */
export function createPace({ clock, perWebhook, ratePerSecond }: PaceOptions): Pace {
  // Their room is taken at once: only in the thread that delivers.
  const throttled = lazy(() => new LRUCache<string, true>({ max: MAX_WEBHOOKS }));
  const buckets = lazy(() => new LRUCache<string, Bucket>({ max: MAX_WEBHOOKS }));

  const bucketOf = (webhookId: string): Bucket => {
    const now = clock.monotonic();
    const known = buckets().get(webhookId);
    if (known === undefined) {
      const full = { tokens: ratePerSecond, at: now };
      buckets().set(webhookId, full);
      return full;
    }
    known.tokens = Math.min(ratePerSecond, known.tokens + ((now - known.at) / 1_000) * ratePerSecond);
    known.at = now;
    return known;
  };

  return {
    concurrency(webhookId) {
      const most = throttled().has(webhookId) ? 1 : perWebhook;
      return ratePerSecond === 0 ? most : Math.max(0, Math.min(most, Math.floor(bucketOf(webhookId).tokens)));
    },
    started(webhookId) {
      if (ratePerSecond > 0) bucketOf(webhookId).tokens -= 1;
    },
    throttle: (webhookId) => {
      throttled().set(webhookId, true);
    },
    succeeded: (webhookId) => {
      throttled().delete(webhookId);
    },
  };
}
