import type { ChainReader } from '../../../src/ports/chain.ts';
import type { PoolConfig } from '../config.ts';
import { type PoolState, poolLiquidity, poolPrice } from '../pools/pool-price.ts';
import { readPools } from '../pools/read-pools.ts';
import type { Found, PriceSource } from './source.ts';

export interface OnchainParts {
  readonly chain: ChainReader;
  readonly stables: readonly string[];
  readonly pools: readonly PoolConfig[];
  readonly minLiquidityUsd: number;
}

/** Prices by what pools hold: against a stable token, or over one more token that has such a pool. */
export function createOnchainSource({ chain, stables, pools, minLiquidityUsd }: OnchainParts): PriceSource {
  const stable = new Set(stables);
  const poolOf = new Map(pools.map((pool) => [pool.mint, pool]));

  /** The pools that the price of a mint needs: its own and that of its quote. */
  function poolsFor(mint: string): readonly PoolConfig[] {
    const own = poolOf.get(mint);
    if (own === undefined || stable.has(mint)) return [];
    const next = stable.has(own.quote) ? undefined : poolOf.get(own.quote);
    return next === undefined ? [own] : [own, next];
  }

  function priceOf(mint: string, states: ReadonlyMap<PoolConfig, PoolState>, hops: number): number | null {
    if (stable.has(mint)) return 1;
    const pool = poolOf.get(mint);
    const state = pool === undefined ? undefined : states.get(pool);
    if (pool === undefined || state === undefined || hops === 0) return null;
    const [quoteUsd, inQuote] = [priceOf(pool.quote, states, hops - 1), poolPrice(state)];
    if (quoteUsd === null || inQuote === null) return null;
    const usd = inQuote * quoteUsd;
    return poolLiquidity(state, usd, quoteUsd) < minLiquidityUsd ? null : usd;
  }

  return {
    name: 'onchain',
    async prices(mints, timeoutMs): Promise<Found> {
      const needed = [...new Set(mints.flatMap(poolsFor))];
      const states = needed.length === 0 ? new Map() : await readPools(chain, needed, timeoutMs);
      const found = new Map<string, number>();
      for (const mint of mints) {
        const usd = priceOf(mint, states, 2);
        if (usd !== null) found.set(mint, usd);
      }
      return found;
    },
  };
}
