import type { MintFacts } from '../../../src/ports/token-facts.ts';
import { uiAmount } from '../../../src/solana/accounts/token/ui-amount.ts';
import { WRAPPED_SOL_MINT } from '../../../src/solana/address/known-programs.ts';
import type { Holding, Holdings } from './holdings.ts';

/** A fungible holding with its value, before its names are known. */
export interface PricedHolding extends Holding {
  readonly decimals: number;
  /** In whole tokens, with the interest or multiplier of the mint. */
  readonly balance: number;
  /** US dollars. */
  readonly price: number | null;
  readonly value: number | null;
}

/** All that a wallet held at one moment, in the order of the pages. */
export interface HoldingTable {
  readonly lamports: bigint;
  /** Of SOL. */
  readonly solPrice: number | null;
  readonly rows: readonly PricedHolding[];
  /** Single things, by mint. */
  readonly nfts: readonly string[];
  /** Mints of which nothing is known, not even the decimals: they can have no row. */
  readonly unknown: readonly string[];
}

export interface TableInput extends Holdings {
  readonly facts: ReadonlyMap<string, MintFacts | null>;
  readonly prices: ReadonlyMap<string, number | null>;
  /** Unix seconds. */
  readonly atS: number;
}

type Known = Pick<MintFacts, 'decimals' | 'scale' | 'isNft'>;

/** Known without asking for it. */
const WRAPPED_SOL: Known = { decimals: 9, scale: null, isNft: false };

/** Priced ones by value, the dearest first, then the others; what is equal goes by mint, so that pages never depend on the node. */
export function buildTable({ lamports, tokens, facts, prices, atS }: TableInput): HoldingTable {
  const rows: PricedHolding[] = [];
  const nfts: string[] = [];
  const unknown: string[] = [];
  for (const holding of tokens) {
    const known = holding.mint === WRAPPED_SOL_MINT ? WRAPPED_SOL : (facts.get(holding.mint) ?? null);
    if (known === null) unknown.push(holding.mint);
    else if (!known.isNft) rows.push(priceHolding(holding, known, prices.get(holding.mint) ?? null, atS));
    else if (holding.amount > 0n) nfts.push(holding.mint);
  }
  rows.sort(compareRows);
  return { lamports, solPrice: prices.get(WRAPPED_SOL_MINT) ?? null, rows, nfts: nfts.sort(), unknown: unknown.sort() };
}

function priceHolding(holding: Holding, facts: Known, price: number | null, atS: number): PricedHolding {
  const { decimals, scale } = facts;
  const balance = Number(uiAmount(holding.amount, decimals, scale, atS));
  return { ...holding, decimals, balance, price, value: price === null ? null : balance * price };
}

function compareRows(a: PricedHolding, b: PricedHolding): number {
  if (a.value !== b.value) {
    if (a.value === null) return 1;
    if (b.value === null) return -1;
    return b.value - a.value;
  }
  return a.mint < b.mint ? -1 : 1;
}
