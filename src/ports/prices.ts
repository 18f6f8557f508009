import { type ServiceToken, serviceToken } from './service.ts';

export interface PriceOptions {
  /** Longest wait; default and upper limit `prices.waitMs`. */
  readonly timeoutMs?: number;
}

/** Prices of tokens in US dollars. */
export interface Prices {
  /**
   * Returns an entry for each mint (base58; SOL is the mint of wrapped SOL): dollars for one whole token, or null if unknown. Never rejects
   * and never exceeds its time limit; prices that arrive later are available to the next call.
   */
  prices(mints: readonly string[], options?: PriceOptions): Promise<ReadonlyMap<string, number | null>>;
}

/** Offered by the plugin `prices`. */
export const tokenPrices: ServiceToken<Prices> = serviceToken('prices.prices');
