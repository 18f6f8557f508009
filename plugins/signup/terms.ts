import { decode32 } from '../../src/lib/base58.ts';
import { CodedError } from '../../src/plugin/plugin.ts';
import type { SignupConfig } from './config.ts';
import { SIGNUP_ERRORS } from './errors.ts';

/** A price of one sign-up. */
export interface Price {
  /** `SOL`, or what the operator calls the token. */
  readonly symbol: string;
  /** Null for SOL. */
  readonly mint: string | null;
  readonly decimals: number;
  /** Lamports or raw units. */
  readonly amount: bigint;
}

/** What has to be paid to whom. */
export interface Terms {
  readonly treasury: string;
  readonly treasuryKey: Uint8Array;
  readonly prices: readonly Price[];
}

const SOL_DECIMALS = 9;

/** Errors: SIGNUP_CONFIG, exit 78. */
export function readTerms({ treasury, lamports, tokens }: SignupConfig): Terms {
  const treasuryKey = treasury === null ? null : decode32(treasury);
  if (treasury === null || treasuryKey === null) throw refused('signup.treasury is no address');
  const sol =
    lamports === null ? [] : [{ symbol: 'SOL', mint: null, decimals: SOL_DECIMALS, amount: BigInt(lamports) }];
  const prices: Price[] = [...sol, ...tokens.map((token) => ({ ...token, amount: BigInt(token.amount) }))];
  if (prices.length === 0) throw refused('signup.lamports or signup.tokens has to name a price');
  for (const { mint } of prices) if (mint !== null && decode32(mint) === null) throw refused(`${mint} is no mint`);
  for (const what of [prices.map(({ symbol }) => symbol.toUpperCase()), prices.map(({ mint }) => mint)])
    if (new Set<string | null>(what).size < prices.length) throw refused('two prices have the same symbol or mint');
  return { treasury, treasuryKey, prices };
}

export const refused = (problem: string) =>
  new CodedError('SIGNUP_CONFIG', `${SIGNUP_ERRORS.SIGNUP_CONFIG}: ${problem}`, { exitCode: 78 });
