import { CodedError, codeOf } from '../../src/lib/coded-error.ts';
import { createLru } from '../../src/lib/lru.ts';
import { API_VERSION, definePlugin, type PluginContext } from '../../src/plugin/plugin.ts';
import type { Clock } from '../../src/ports/clock.ts';
import { type Prices, tokenPrices } from '../../src/ports/tokens.ts';
import { type PricesConfig, pricesConfig } from './config.ts';
import { PRICES_ERRORS } from './errors.ts';
import { createHttpSource, createOnchainSource, createStaticSource, type PriceSource } from './sources.ts';

export default definePlugin({
  id: 'prices',
  apiVersion: API_VERSION,
  summary: 'prices of tokens in US dollars, for the other plugins',
  roles: ['api'],
  config: pricesConfig,
  offers: [tokenPrices],
  provision: (ctx) => assemblePrices(ctx),
});

type Context = PluginContext<PricesConfig>;

const MAX_CONNECTIONS = 4;

/** Puts the parts of the plugin together. Error: PRICES_FILE_MISSING. */
export function assemblePrices(ctx: Context): void {
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
      throw new CodedError('PRICES_FILE_MISSING', PRICES_ERRORS.PRICES_FILE_MISSING, { exitCode: 78 });
    return createStaticSource(config.file);
  }
  if (name === 'onchain') {
    const chain = ctx.chain('main');
    return chain === null ? null : createOnchainSource({ chain, config });
  }
  const client = ctx.outbound.open({
    ...{ allowCidrs: config.allowCidrs, allowHttp: config.allowCidrs.length > 0, allowPorts: null, caFile: null },
    ...{ maxConnections: MAX_CONNECTIONS, section: ctx.id },
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
interface Kept {
  /** Null: every source answered and none has a price. */
  readonly usd: number | null;
  readonly readAtMs: number;
  /** When it is worth asking again. */
  readonly askAtMs: number;
}

/** Prices from several sources, kept for a while; who asks for the same mint at the same time shares a call. */
export function createPrices({ sources, clock, config, onFailure }: PricesParts): Prices {
  const kept = createLru<string, Kept>({ max: config.maxKept });
  const running = new Map<string, Promise<void>>();

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
    const free = mints.filter((mint) => !running.has(mint));
    if (free.length > 0) {
      const call = refresh(free).finally(() => {
        for (const mint of free) running.delete(mint);
      });
      for (const mint of free) running.set(mint, call);
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
