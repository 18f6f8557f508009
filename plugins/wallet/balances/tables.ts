import { LRUCache } from 'lru-cache';
import type { Clock, Log, Metrics } from '../../../src/kernel/plugin.ts';
import { RequestError } from '../../../src/kernel/request.ts';
import type { Prices } from '../../../src/ports/prices.ts';
import { WRAPPED_SOL_MINT } from '../../../src/solana/address/known-programs.ts';
import type { ChainCall } from '../input/chain-call.ts';
import type { LookUpFacts } from './facts.ts';
import { type Holding, readHoldings } from './holdings.ts';
import { buildTable, type HoldingTable } from './table.ts';

export interface Tables {
  /**
   * What a wallet (base58) holds. The first page is of now; further ones are of the moment of the first, so that they go together
   * while its prices and amounts change. Requests at the same time share one reading.
   */
  read(wallet: string, options: { readonly page: number; readonly withZeros: boolean }): Promise<HoldingTable>;
}

export interface TablesParts {
  readonly chain: ChainCall;
  readonly lookUp: LookUpFacts;
  readonly prices: Prices | null;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly commitment: string;
  readonly cacheMs: number;
  readonly pagesMs: number;
  readonly maxMints: number;
  readonly maxCachedRows: number;
}

interface KnownTable {
  readonly table: HoldingTable;
  /** Monotonic. */
  readonly readMs: number;
}

export function createTables(parts: TablesParts): Tables {
  const { clock, chain, lookUp } = parts;
  const known = new LRUCache<string, KnownTable>({
    maxSize: parts.maxCachedRows,
    sizeCalculation: ({ table }) => 1 + table.rows.length + table.nfts.length,
  });
  const underWay = new Map<string, Promise<HoldingTable>>();
  const unknownMints = parts.metrics.counter(
    'unknown_mints_total',
    'holdings without a row, because the account of their mint cannot be read',
  );

  async function pricesOf(tokens: readonly Holding[]): Promise<ReadonlyMap<string, number | null>> {
    if (parts.prices === null) return new Map();
    return parts.prices.prices([...new Set([WRAPPED_SOL_MINT, ...tokens.map(({ mint }) => mint)])]);
  }

  async function make(wallet: string, withZeros: boolean): Promise<HoldingTable> {
    const { lamports, tokens: all } = await readHoldings(chain, wallet, parts.commitment);
    const tokens = withZeros ? all : all.filter(({ amount }) => amount > 0n);
    if (tokens.length > parts.maxMints)
      throw new RequestError(503, 'Service unavailable', {
        details: `The wallet holds ${tokens.length} different tokens; at most ${parts.maxMints} are read`,
      });
    const [facts, prices] = await Promise.all([lookUp(tokens.map(({ mint }) => mint)), pricesOf(tokens)]);
    const table = buildTable({ lamports, tokens, facts, prices, atS: clock.now() / 1_000 });
    if (table.unknown.length > 0) {
      unknownMints.add(table.unknown.length);
      const some = table.unknown.slice(0, 5);
      parts.log.warn({ wallet, count: table.unknown.length, mints: some }, 'holdings of unknown mints are left out');
    }
    return table;
  }

  return {
    read(wallet, { page, withZeros }) {
      const key = `${wallet}${withZeros}`;
      const found = known.get(key);
      const maxAgeMs = page === 1 ? parts.cacheMs : parts.pagesMs;
      if (found !== undefined && clock.monotonic() - found.readMs < maxAgeMs) return Promise.resolve(found.table);
      const running = underWay.get(key);
      if (running !== undefined) return running;
      const readMs = clock.monotonic();
      const table = make(wallet, withZeros)
        .then((made) => {
          if (parts.pagesMs > 0 || parts.cacheMs > 0) known.set(key, { table: made, readMs });
          return made;
        })
        .finally(() => underWay.delete(key));
      underWay.set(key, table);
      return table;
    },
  };
}
