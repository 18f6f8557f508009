import { LRUCache } from 'lru-cache';
import { encode32 } from '../../../src/lib/base58.ts';
import type { Clock, Log, Metrics } from '../../../src/plugin/plugin.ts';
import { RequestError } from '../../../src/plugin/request.ts';
import type { Tenant } from '../../../src/ports/access.ts';
import type { LookUpOptions, MintFacts, Prices, TokenFacts } from '../../../src/ports/tokens.ts';
import { createSingleFlight } from '../../../src/runtime/single-flight.ts';
import { uiAmount } from '../../../src/solana/accounts/amounts.ts';
import { TOKEN_2022_PROGRAM, TOKEN_PROGRAM, WRAPPED_SOL_MINT } from '../../../src/solana/programs.ts';
import type { WalletConfig } from '../config.ts';
import { type ChainCall, refusedAs503 } from '../wallet-route.ts';

export interface HoldingTables {
  /**
   * Holdings of a wallet (base58). The first page is current; further pages show the same moment, so that they fit together
   * while prices and amounts change. Concurrent requests share one read.
   */
  read(wallet: string, options: TableOptions): Promise<HoldingTable>;
}

interface TableOptions {
  readonly page: number;
  readonly withZeros: boolean;
  readonly tenant: Tenant;
}

interface TablesParts {
  readonly chain: ChainCall;
  readonly lookUp: LookUpFacts;
  readonly prices: Prices | null;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly commitment: string;
  readonly config: Pick<WalletConfig['balances'], 'cacheMs' | 'pagesMs' | 'maxMints' | 'maxCachedRows'>;
}

interface KnownTable {
  readonly table: HoldingTable;
  /** Monotonic. */
  readonly readMs: number;
}

export function createHoldingTables(parts: TablesParts): HoldingTables {
  const { clock, chain, lookUp } = parts;
  const known = new LRUCache<string, KnownTable>({
    maxSize: parts.config.maxCachedRows,
    sizeCalculation: ({ table }) => 1 + table.rows.length + table.nfts.length,
  });
  const inFlight = createSingleFlight<string, HoldingTable>();
  const unknownMints = parts.metrics.counter(
    'unknown_mints_total',
    'holdings omitted because the account of their mint cannot be read',
  );

  async function pricesOf(tokens: readonly Holding[]): Promise<ReadonlyMap<string, number | null>> {
    if (parts.prices === null) return new Map();
    return parts.prices.prices([...new Set([WRAPPED_SOL_MINT, ...tokens.map(({ mint }) => mint)])]);
  }

  async function make(wallet: string, withZeros: boolean, tenant: Tenant): Promise<HoldingTable> {
    const { lamports, tokens: all } = await readHoldings(chain, wallet, parts.commitment, tenant);
    const tokens = withZeros ? all : all.filter(({ amount }) => amount > 0n);
    if (tokens.length > parts.config.maxMints)
      throw new RequestError(503, 'Service unavailable', {
        details: `The wallet holds ${tokens.length} different tokens; at most ${parts.config.maxMints} are read`,
      });
    const [facts, prices] = await Promise.all([
      lookUp(
        tokens.map(({ mint }) => mint),
        { tenant },
      ),
      pricesOf(tokens),
    ]);
    const table = buildTable({ lamports, tokens, facts, prices, atS: clock.now() / 1_000 });
    if (table.unknown.length > 0) {
      unknownMints.add(table.unknown.length);
      const some = table.unknown.slice(0, 5);
      parts.log.warn({ wallet, count: table.unknown.length, mints: some }, 'holdings of unknown mints are omitted');
    }
    return table;
  }

  return {
    read(wallet, { page, withZeros, tenant }) {
      const key = `${wallet}${withZeros}`;
      const found = known.get(key);
      const maxAgeMs = page === 1 ? parts.config.cacheMs : parts.config.pagesMs;
      if (found !== undefined && clock.monotonic() - found.readMs < maxAgeMs) return Promise.resolve(found.table);
      return inFlight.run(key, async () => {
        const readMs = clock.monotonic();
        const table = await make(wallet, withZeros, tenant);
        if (parts.config.pagesMs > 0 || parts.config.cacheMs > 0) known.set(key, { table, readMs });
        return table;
      });
    },
  };
}

/** A fungible holding with its value, before its names are known. */
export interface PricedHolding extends Holding {
  readonly decimals: number;
  /** In whole tokens, with the interest or multiplier of the mint. */
  readonly balance: number;
  /** US dollars. */
  readonly price: number | null;
  readonly value: number | null;
}

/** All holdings of a wallet at one moment, in the order of the pages. */
export interface HoldingTable {
  readonly lamports: bigint;
  /** US dollars per SOL; null: unknown. */
  readonly solPrice: number | null;
  readonly rows: readonly PricedHolding[];
  /** NFTs, by mint. */
  readonly nfts: readonly string[];
  /** Mints without known decimals: they can have no row. */
  readonly unknown: readonly string[];
}

export interface TableInput extends Holdings {
  readonly facts: ReadonlyMap<string, MintFacts | null>;
  readonly prices: ReadonlyMap<string, number | null>;
  /** Unix seconds. */
  readonly atS: number;
}

type DisplayFacts = Pick<MintFacts, 'decimals' | 'scale' | 'isNft'>;

/** Known without a look-up. */
const WRAPPED_SOL: DisplayFacts = { decimals: 9, scale: null, isNft: false };

/** Priced ones by value, highest first, then the others; ties are ordered by mint, so that pages do not depend on the node. */
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

function priceHolding(holding: Holding, facts: DisplayFacts, price: number | null, atS: number): PricedHolding {
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

export type TokenProgramName = 'spl-token' | 'token-2022';

/** The holding of a wallet in one mint. */
interface Holding {
  /** Base58. */
  readonly mint: string;
  readonly program: TokenProgramName;
  /** Sum over its accounts, raw units. */
  readonly amount: bigint;
}

interface Holdings {
  readonly lamports: bigint;
  /** One per mint, unordered. */
  readonly tokens: readonly Holding[];
}

interface TokenAccount {
  readonly account: { readonly data: readonly [base64: string, encoding: string] };
}

/** Mint, owner and amount; the rest of a token account is not needed. */
const HEAD_BYTES = 72;
const AMOUNT_AT = 64;
const PROGRAMS: readonly (readonly [TokenProgramName, string])[] = [
  ['spl-token', TOKEN_PROGRAM],
  ['token-2022', TOKEN_2022_PROGRAM],
];

/** Reads the lamports and token accounts of a wallet (base58), including frozen ones, and sums those of one mint. */
async function readHoldings(chain: ChainCall, wallet: string, commitment: string, tenant: Tenant): Promise<Holdings> {
  const options = { encoding: 'base64', commitment, dataSlice: { offset: 0, length: HEAD_BYTES } };
  const [balance, ...accounts] = await Promise.all([
    chain.text('getBalance', [wallet, { commitment }], tenant),
    ...PROGRAMS.map(([, programId]) =>
      chain.call<{ value: readonly TokenAccount[] }>(
        'getTokenAccountsByOwner',
        [wallet, { programId }, options],
        tenant,
      ),
    ),
  ]);
  const tokens = PROGRAMS.flatMap(([program], at) => sumByMint(program, accounts[at]?.value ?? []));
  return { lamports: readLamports(balance), tokens };
}

function sumByMint(program: TokenProgramName, accounts: readonly TokenAccount[]): readonly Holding[] {
  const amounts = new Map<string, bigint>();
  for (const { account } of accounts) {
    const head = Buffer.from(account.data[0], 'base64');
    if (head.length < HEAD_BYTES) continue;
    const mint = encode32(head);
    amounts.set(mint, (amounts.get(mint) ?? 0n) + head.readBigUInt64LE(AMOUNT_AT));
  }
  return Array.from(amounts, ([mint, amount]) => ({ mint, program, amount }));
}

/** Lamports can exceed 2^53. */
function readLamports(text: string): bigint {
  const value = /"value"\s*:\s*(\d+)/.exec(text)?.[1];
  if (value === undefined) throw new TypeError('the answer to getBalance holds no value');
  return BigInt(value);
}

/** Facts of any number of mints. Errors are meant for the caller. */
export type LookUpFacts = (
  mints: readonly string[],
  options: LookUpOptions,
) => Promise<ReadonlyMap<string, MintFacts | null>>;

const MAX_AT_ONCE = 1_000;

/** Splits many mints over several sequential look-ups. */
export function createFactsLookUp(facts: TokenFacts | null): LookUpFacts {
  return async (mints, options) => {
    if (mints.length === 0) return new Map();
    if (facts === null)
      throw new RequestError(503, 'Service unavailable', { details: 'The plugin token-metadata is not enabled' });
    const found: [string, MintFacts | null][] = [];
    for (let at = 0; at < mints.length; at += MAX_AT_ONCE) {
      const some = mints.slice(at, at + MAX_AT_ONCE);
      found.push(...(await refusedAs503('getMultipleAccounts', facts.lookUp(some, options))));
    }
    return new Map(found);
  };
}
