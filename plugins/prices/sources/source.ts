/** Dollars by mint; those that are not in the map are unknown to the source. */
export type Found = ReadonlyMap<string, number>;

/** Where prices come from. */
export interface PriceSource {
  readonly name: 'static' | 'http' | 'onchain';
  /** Rejects when the source does not answer: then nothing is known, not even that there is no price. */
  prices(mints: readonly string[], timeoutMs: number): Promise<Found>;
}

/** Whether a value is a price at all. */
export const isPrice = (value: unknown): value is number =>
  typeof value === 'number' && Number.isFinite(value) && value >= 0;
