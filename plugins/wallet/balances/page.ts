import type { MintFacts } from '../../../src/ports/token-facts.ts';
import { plainAmount } from '../../../src/solana/accounts/amounts.ts';
import { WRAPPED_SOL_MINT } from '../../../src/solana/addresses.ts';
import type { HoldingTable, PricedHolding, TokenProgramName } from './tables.ts';

/** A row of an answer. */
export interface TokenBalance {
  readonly mint: string;
  readonly symbol: string | null;
  readonly name: string | null;
  readonly balance: number;
  readonly decimals: number;
  readonly pricePerToken: number | null;
  readonly usdValue: number | null;
  readonly logoUri: string | null;
  readonly tokenProgram: TokenProgramName;
}

export interface PageQuery {
  /** From 1. */
  readonly page: number;
  readonly limit: number;
  readonly showNative: boolean;
}

const SOL_DECIMALS = 9;

/** What a page shows: SOL stands before all rows and counts like one of them. */
export function cutPage({ rows }: HoldingTable, { page, limit, showNative }: PageQuery) {
  const before = showNative ? 1 : 0;
  const start = (page - 1) * limit;
  const end = start + limit;
  return {
    withSol: showNative && page === 1,
    rows: rows.slice(Math.max(0, start - before), Math.max(0, end - before)),
    hasMore: rows.length + before > end,
  };
}

/** The row of SOL itself, also when there is none of it. */
export function solRow({ lamports, solPrice }: HoldingTable, facts: MintFacts | null): TokenBalance {
  const balance = Number(plainAmount(lamports, SOL_DECIMALS));
  return {
    ...{ mint: WRAPPED_SOL_MINT, symbol: 'SOL', name: 'Solana', balance, decimals: SOL_DECIMALS },
    ...{ pricePerToken: solPrice, usdValue: solPrice === null ? null : balance * solPrice },
    ...{ logoUri: facts?.logoUri ?? null, tokenProgram: 'spl-token' },
  };
}

/** The row of a token. Wrapped SOL is called so, to be told from SOL. */
export function tokenRow(row: PricedHolding, facts: MintFacts | null): TokenBalance {
  const { mint, decimals, balance } = row;
  const isWrapped = mint === WRAPPED_SOL_MINT;
  return {
    mint,
    symbol: isWrapped ? 'WSOL' : (facts?.symbol ?? null),
    name: isWrapped ? 'Wrapped SOL' : (facts?.name ?? null),
    ...{ balance, decimals, pricePerToken: row.price, usdValue: row.value },
    ...{ logoUri: facts?.logoUri ?? null, tokenProgram: row.program },
  };
}

/** Dollars of the rows together, without those that have no price. */
export function totalValue(rows: readonly TokenBalance[]): number {
  return rows.reduce((sum, { usdValue }) => sum + (usdValue ?? 0), 0);
}
