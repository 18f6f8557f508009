/** What a pool holds and says, read from the chain. Amounts are raw units. */
export interface PoolState {
  readonly base: { readonly amount: bigint; readonly decimals: number };
  readonly quote: { readonly amount: bigint; readonly decimals: number };
  /** Square root of the price as 64.64 bits, of pools with concentrated liquidity. */
  readonly sqrtPrice: { readonly value: bigint; readonly inverted: boolean } | null;
}

const ONE_64 = 2 ** 64;

/** How many quote tokens one base token is worth; null where the pool is empty. */
export function poolPrice({ base, quote, sqrtPrice }: PoolState): number | null {
  if (base.amount === 0n || quote.amount === 0n) return null;
  const price = sqrtPrice === null ? whole(quote) / whole(base) : fromRoot(sqrtPrice, base.decimals, quote.decimals);
  return Number.isFinite(price) && price > 0 ? price : null;
}

/** Dollars on both sides together, when a quote token is worth `quoteUsd` and a base token `baseUsd`. */
export function poolLiquidity({ base, quote }: PoolState, baseUsd: number, quoteUsd: number): number {
  return whole(base) * baseUsd + whole(quote) * quoteUsd;
}

const whole = ({ amount, decimals }: PoolState['base']): number => Number(amount) / 10 ** decimals;

/** The root is that of raw units of the second token for one of the first. */
function fromRoot(
  { value, inverted }: NonNullable<PoolState['sqrtPrice']>,
  baseDecimals: number,
  quoteDecimals: number,
): number {
  const raw = (Number(value) / ONE_64) ** 2;
  return (inverted ? 1 / raw : raw) * 10 ** (baseDecimals - quoteDecimals);
}
