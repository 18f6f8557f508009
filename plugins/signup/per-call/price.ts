import type { AccessAccounts } from '../../../src/ports/access.ts';
import { perCallRefused } from './refused.ts';

/** Credits in raw units of the mint. */
export interface CreditPrice {
  /** What calls of so many credits cost: rounded up to whole units. */
  amountOf(credits: number): bigint;
  /** What an amount buys, in whole credits. */
  creditsOf(amount: bigint): number;
}

const MICRO = 1_000_000;
export const DECIMALS = 6;

/** Errors: SIGNUP_PER_CALL. */
export function creditPrice(accounts: Pick<AccessAccounts, 'hasPlan' | 'priceOf'>, plan: string): CreditPrice {
  if (!accounts.hasPlan(plan)) throw perCallRefused(`there is no plan ${plan}`);
  const price = accounts.priceOf(plan);
  if (price === null) throw perCallRefused(`the plan ${plan} has no price (priceUsd), or no credits`);
  const [units, credits] = [BigInt(Math.round(price.usd * MICRO)), BigInt(price.credits)];
  if (units === 0n) throw perCallRefused(`the price of the plan ${plan} is below one unit`);
  return {
    amountOf: (wanted) => (BigInt(Math.ceil(wanted)) * units + credits - 1n) / credits,
    creditsOf: (amount) => Number((amount * credits) / units),
  };
}
