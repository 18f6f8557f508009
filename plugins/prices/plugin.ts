import { readFile, stat } from 'node:fs/promises';
import { CodedError, codeOf, EXIT } from '../../src/lib/coded-error.ts';
import { isPlainObject } from '../../src/lib/json.ts';
import { createLru } from '../../src/lib/lru.ts';
import type { PluginContext } from '../../src/plugin/plugin.ts';
import { OWN_WORK } from '../../src/ports/access.ts';
import type { ChainReader } from '../../src/ports/chain.ts';
import type { Clock } from '../../src/ports/clock.ts';
import type { OutboundClient } from '../../src/ports/outbound.ts';
import { type Prices, tokenPrices } from '../../src/ports/tokens.ts';
import { createSingleFlight } from '../../src/runtime/single-flight.ts';
import type { RawAccount } from '../../src/solana/accounts/decoded.ts';
import { decodeMint, decodeTokenAccount } from '../../src/solana/accounts/token.ts';
import { type PoolConfig, PRICES_ERRORS, type PricesConfig } from './config.ts';

type Context = PluginContext<PricesConfig>;

const MAX_CONNECTIONS = 4;

/** Puts the parts of the plugin together. Error: PRICES_FILE_MISSING. */
export function provision(ctx: Context): void {
  const { config, clock, log } = ctx;
  const closers: (() => Promise<void>)[] = [];
  const names = Array.isArray(config.source) ? config.source : config.source === 'none' ? [] : [config.source];
  const sources = [...new Set(names)].flatMap((name) => createSource(name, ctx, closers) ?? []);
  const failures = ctx.metrics.counter('failures_total', 'Times that a source of prices did not answer', ['source']);
  const onFailure = (source: PriceSource['name'], error: unknown): void => {
    failures.with(source).add();
    log.debug({ source, code: codeOf(error) }, 'a source of prices does not answer');
  };
  ctx.provide(tokenPrices, createPrices({ sources, clock, config, onFailure }));
  ctx.onStop(async () => {
    for (const close of closers) await close();
  });
}

function createSource(name: PriceSource['name'], ctx: Context, closers: (() => Promise<void>)[]): PriceSource | null {
  const { config } = ctx;
  if (name === 'static') {
    if (config.file === null)
      throw new CodedError('PRICES_FILE_MISSING', PRICES_ERRORS.PRICES_FILE_MISSING, { exitCode: EXIT.config });
    return createStaticSource(config.file);
  }
  if (name === 'onchain') {
    const chain = ctx.chain('main');
    return chain === null ? null : createOnchainSource({ chain, config });
  }
  const client = ctx.outbound.open({
    allowCidrs: config.allowCidrs,
    allowHttp: config.allowCidrs.length > 0,
    allowPorts: null,
    caFile: null,
    maxConnections: MAX_CONNECTIONS,
    section: ctx.id,
  });
  closers.push(() => client.close());
  return createHttpSource({ client, baseUrl: config.baseUrl, apiKey: config.apiKey });
}

export interface PricesParts {
  readonly sources: readonly PriceSource[];
  readonly clock: Clock;
  readonly config: Pick<PricesConfig, 'timeoutMs' | 'waitMs' | 'ttlMs' | 'staleMs' | 'retryMs' | 'maxKept'>;
  /** Called when a source does not answer. */
  readonly onFailure: (source: PriceSource['name'], error: unknown) => void;
}

/** Times are of the monotonic clock. */
interface CachedPrice {
  /** Null: every source answered and none has a price. */
  readonly usd: number | null;
  readonly readAtMs: number;
  /** When it is worth asking again. */
  readonly askAtMs: number;
}

/** Prices from several sources, kept for a while; who asks for the same mint at the same time shares a call. */
export function createPrices({ sources, clock, config, onFailure }: PricesParts): Prices {
  const kept = createLru<string, CachedPrice>({ max: config.maxKept });
  const running = createSingleFlight<string, void>();

  /** Asks the sources one after the other for what those before do not know. */
  async function refresh(mints: readonly string[]): Promise<void> {
    const usd = new Map<string, number>();
    let silent = false;
    for (const source of sources) {
      const open = mints.filter((mint) => !usd.has(mint));
      if (open.length === 0) break;
      try {
        for (const [mint, price] of await source.prices(open, config.timeoutMs)) usd.set(mint, price);
      } catch (error) {
        silent = true;
        onFailure(source.name, error);
      }
    }
    const now = clock.monotonic();
    for (const mint of mints) {
      const price = usd.get(mint);
      const old = kept.get(mint);
      if (price !== undefined) kept.set(mint, { usd: price, readAtMs: now, askAtMs: now + config.ttlMs });
      else if (!silent) kept.set(mint, { usd: null, readAtMs: now, askAtMs: now + config.ttlMs });
      // The source that may know it was silent: what it said before still counts for a while.
      else kept.set(mint, { usd: old?.usd ?? null, readAtMs: old?.readAtMs ?? now, askAtMs: now + config.retryMs });
    }
  }

  function ask(mints: readonly string[]): Promise<unknown>[] {
    const free = mints.filter((mint) => running.get(mint) === undefined);
    if (free.length > 0) {
      const call = refresh(free);
      for (const mint of free) void running.run(mint, () => call);
    }
    return [...new Set(mints.map((mint) => running.get(mint)))].filter((call) => call !== undefined);
  }

  const priceNow = (mint: string): number | null => {
    const known = kept.get(mint);
    return known === undefined || clock.monotonic() - known.readAtMs > config.staleMs ? null : known.usd;
  };

  return {
    async prices(mints, { timeoutMs = config.waitMs } = {}) {
      const distinct = [...new Set(mints)];
      if (sources.length > 0) {
        const now = clock.monotonic();
        const old = distinct.filter((mint) => (kept.get(mint)?.askAtMs ?? 0) <= now);
        if (old.length > 0) await within(clock, Math.min(timeoutMs, config.waitMs), ask(old));
      }
      return new Map(distinct.map((mint) => [mint, priceNow(mint)]));
    },
  };
}

function within(clock: Clock, ms: number, calls: readonly Promise<unknown>[]): Promise<void> {
  return new Promise((resolve) => {
    const cancel = clock.timeout(ms, resolve);
    void Promise.allSettled(calls).then(() => {
      cancel();
      resolve();
    });
  });
}

/** Dollars by mint; those that are not in the map are unknown to the source. */
export type PricesByMint = ReadonlyMap<string, number>;

/** Where prices come from. */
export interface PriceSource {
  readonly name: 'static' | 'http' | 'onchain';
  /** Rejects when the source does not answer: then nothing is known, not even that there is no price. */
  prices(mints: readonly string[], timeoutMs: number): Promise<PricesByMint>;
}

/** Whether a value is a price at all. */
const isPrice = (value: unknown): value is number => typeof value === 'number' && Number.isFinite(value) && value >= 0;

interface HttpSourceParts {
  readonly client: OutboundClient;
  readonly baseUrl: string;
  readonly apiKey: string | null;
}

/** The most that a server takes in one call. */
const MINTS_PER_CALL = 50;
const MAX_BYTES = 1_048_576;

/** Asks a server that answers like price v3 of Jupiter: an object by mint, in which mints without a reliable price are missing. */
export function createHttpSource({ client, baseUrl, apiKey }: HttpSourceParts): PriceSource {
  const base = baseUrl.replace(/\/+$/, '');
  const headers: Record<string, string> = { accept: 'application/json' };
  if (apiKey !== null) headers['x-api-key'] = apiKey;

  async function ask(mints: readonly string[], timeoutMs: number): Promise<PricesByMint> {
    const url = `${base}/price/v3?ids=${mints.join(',')}`;
    const response = await client.request({
      method: 'GET',
      url,
      headers,
      timeoutMs,
      keepBytes: MAX_BYTES,
      maxBytes: MAX_BYTES,
    });
    if (response.status !== 200) throw badAnswer(`status ${response.status}`);
    const answer = parse(response.body.toString('utf8'));
    const found = new Map<string, number>();
    for (const mint of mints) {
      const entry = answer[mint];
      const usd = isPlainObject(entry) ? entry['usdPrice'] : undefined;
      if (isPrice(usd)) found.set(mint, usd);
    }
    return found;
  }

  return {
    name: 'http',
    async prices(mints, timeoutMs) {
      const calls: Promise<PricesByMint>[] = [];
      for (let from = 0; from < mints.length; from += MINTS_PER_CALL)
        calls.push(ask(mints.slice(from, from + MINTS_PER_CALL), timeoutMs));
      const answers = await Promise.all(calls);
      return new Map(answers.flatMap((found) => [...found]));
    },
  };
}

function parse(text: string): Readonly<Record<string, unknown>> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw badAnswer('no JSON');
  }
  if (!isPlainObject(value)) throw badAnswer('no object');
  return value;
}

const badAnswer = (reason: string) =>
  new CodedError('PRICES_BAD_ANSWER', PRICES_ERRORS.PRICES_BAD_ANSWER, { facts: { reason }, retryable: true });

/** Prices of a JSON file: `{mint: dollars}` or `{mint: {usd}}`. It is read again when its time or size changes. */
export function createStaticSource(path: string): PriceSource {
  let read: { readonly stamp: string; readonly prices: PricesByMint } | null = null;

  async function load(): Promise<PricesByMint> {
    const { mtimeMs, size } = await stat(path);
    const stamp = `${mtimeMs}:${size}`;
    if (read?.stamp !== stamp) read = { stamp, prices: pricesOf(JSON.parse(await readFile(path, 'utf8'))) };
    return read.prices;
  }

  return {
    name: 'static',
    async prices(mints) {
      const all = await load();
      const found = new Map<string, number>();
      for (const mint of mints) {
        const usd = all.get(mint);
        if (usd !== undefined) found.set(mint, usd);
      }
      return found;
    },
  };
}

function pricesOf(file: unknown): PricesByMint {
  if (!isPlainObject(file)) throw new TypeError('the file of prices holds no object');
  const prices = new Map<string, number>();
  for (const [mint, value] of Object.entries(file)) {
    const usd = isPlainObject(value) ? value['usd'] : value;
    if (isPrice(usd)) prices.set(mint, usd);
  }
  return prices;
}

interface OnchainParts {
  readonly chain: ChainReader;
  readonly config: Pick<PricesConfig, 'stables' | 'pools' | 'minLiquidityUsd'>;
}

/** Prices by what pools hold: against a stable token, or over one more token that has such a pool. */
export function createOnchainSource({ chain, config }: OnchainParts): PriceSource {
  const stable = new Set(config.stables);
  const poolOf = new Map(config.pools.map((pool) => [pool.mint, pool]));

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
    return poolLiquidity(state, usd, quoteUsd) < config.minLiquidityUsd ? null : usd;
  }

  return {
    name: 'onchain',
    async prices(mints, timeoutMs): Promise<PricesByMint> {
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

const ACCOUNTS_PER_CALL = 100;
const ROOT_BYTES = 16;

interface AnsweredAccount {
  readonly owner: string;
  readonly data: readonly [string, string];
}

type Accounts = ReadonlyMap<string, Pick<RawAccount, 'owner' | 'data'>>;

/** Reads pools from the chain; those whose accounts are not what the configuration says are left out. Errors: those of `ChainReader.call`. */
async function readPools(
  chain: ChainReader,
  pools: readonly PoolConfig[],
  timeoutMs: number,
): Promise<ReadonlyMap<PoolConfig, PoolState>> {
  const keys = new Set(pools.flatMap((pool) => [pool.mint, pool.quote, pool.baseVault, pool.quoteVault]));
  for (const { sqrtPrice } of pools) if (sqrtPrice !== undefined) keys.add(sqrtPrice.account);
  const accounts = await readAll(chain, [...keys], timeoutMs);
  const states = new Map<PoolConfig, PoolState>();
  for (const pool of pools) {
    const state = stateOf(pool, accounts);
    if (state !== null) states.set(pool, state);
  }
  return states;
}

async function readAll(chain: ChainReader, keys: readonly string[], timeoutMs: number): Promise<Accounts> {
  const found = new Map<string, Pick<RawAccount, 'owner' | 'data'>>();
  for (let from = 0; from < keys.length; from += ACCOUNTS_PER_CALL) {
    const part = keys.slice(from, from + ACCOUNTS_PER_CALL);
    const params = [part, { encoding: 'base64', commitment: 'confirmed' }];
    // Read for all at times of its own.
    const options = { tenant: OWN_WORK, timeoutMs };
    const { value } = await chain.call<{ readonly value: readonly (AnsweredAccount | null)[] }>(
      'getMultipleAccounts',
      params,
      options,
    );
    part.forEach((key, index) => {
      const account = value[index];
      if (account) found.set(key, { owner: account.owner, data: Buffer.from(account.data[0], 'base64') });
    });
  }
  return found;
}

function stateOf(pool: PoolConfig, accounts: Accounts): PoolState | null {
  const base = sideOf(pool.mint, pool.baseVault, accounts);
  const quote = sideOf(pool.quote, pool.quoteVault, accounts);
  if (base === null || quote === null) return null;
  if (pool.sqrtPrice === undefined) return { base, quote, sqrtPrice: null };
  const { account, offset, inverted } = pool.sqrtPrice;
  const data = accounts.get(account)?.data;
  if (data === undefined || data.length < offset + ROOT_BYTES) return null;
  const view = new DataView(data.buffer, data.byteOffset + offset, ROOT_BYTES);
  const value = view.getBigUint64(0, true) + (view.getBigUint64(8, true) << 64n);
  return { base, quote, sqrtPrice: { value, inverted } };
}

function sideOf(mint: string, vault: string, accounts: Accounts): PoolState['base'] | null {
  const [mintAccount, vaultAccount] = [accounts.get(mint), accounts.get(vault)];
  if (mintAccount === undefined || vaultAccount === undefined) return null;
  const { value: decoded } = decodeMint(mintAccount);
  const { value: held } = decodeTokenAccount(vaultAccount);
  if (decoded === null || held === null || held.mint !== mint) return null;
  return { amount: held.amount, decimals: decoded.decimals };
}

/** What a pool holds and says, read from the chain. Amounts are raw units. */
interface PoolState {
  readonly base: { readonly amount: bigint; readonly decimals: number };
  readonly quote: { readonly amount: bigint; readonly decimals: number };
  /** Square root of the price as 64.64 bits, of pools with concentrated liquidity. */
  readonly sqrtPrice: { readonly value: bigint; readonly inverted: boolean } | null;
}

const ONE_64 = 2 ** 64;

/** How many quote tokens one base token is worth; null where the pool is empty. */
function poolPrice({ base, quote, sqrtPrice }: PoolState): number | null {
  if (base.amount === 0n || quote.amount === 0n) return null;
  const price = sqrtPrice === null ? whole(quote) / whole(base) : fromRoot(sqrtPrice, base.decimals, quote.decimals);
  return Number.isFinite(price) && price > 0 ? price : null;
}

/** Dollars on both sides together, when a quote token is worth `quoteUsd` and a base token `baseUsd`. */
function poolLiquidity({ base, quote }: PoolState, baseUsd: number, quoteUsd: number): number {
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
