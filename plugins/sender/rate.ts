import { type CallContext, type Clock, RpcError } from '../../src/kernel/plugin.ts';
import { createLru } from '../../src/lib/lru.ts';

/** Token buckets, one per key or, without a key, per client address. */
export interface Rate {
  /** Takes a token or throws -32005 with the time to wait. */
  take(context: CallContext): void;
}

const MAX_BUCKETS = 50_000;

export function createRate(clock: Clock, perSecond: number, burstFactor: number): Rate {
  const capacity = perSecond * burstFactor;
  // Its room is taken at once: only when there is a call at all.
  const buckets = createLru<string, { tokens: number; at: number }>({ max: MAX_BUCKETS });
  return {
    take({ caller, remoteAddress }) {
      const name = caller?.keyId ?? ` ${remoteAddress}`;
      const now = clock.monotonic();
      const bucket = buckets.get(name) ?? { tokens: capacity, at: now };
      bucket.tokens = Math.min(capacity, bucket.tokens + ((now - bucket.at) / 1000) * perSecond);
      bucket.at = now;
      buckets.set(name, bucket);
      if (bucket.tokens < 1) {
        throw new RpcError('tooManyRequests', { retryAfterS: Math.max(1, Math.ceil((1 - bucket.tokens) / perSecond)) });
      }
      bucket.tokens -= 1;
    },
  };
}
