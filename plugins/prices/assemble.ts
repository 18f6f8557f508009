import { CodedError, codeOf } from '../../src/lib/coded-error.ts';
import type { PluginContext } from '../../src/plugin/plugin.ts';
import { tokenPrices } from '../../src/ports/prices.ts';
import type { PricesConfig } from './config.ts';
import { PRICES_ERRORS } from './errors.ts';
import { createOnchainSource } from './onchain.ts';
import { createPrices } from './prices.ts';
import { createHttpSource, createStaticSource, type PriceSource } from './sources.ts';

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
    const { stables, pools, minLiquidityUsd } = config;
    return chain === null ? null : createOnchainSource({ chain, stables, pools, minLiquidityUsd });
  }
  const client = ctx.outbound.open({
    ...{ allowCidrs: config.allowCidrs, allowHttp: config.allowCidrs.length > 0, allowPorts: null, caFile: null },
    ...{ maxConnections: MAX_CONNECTIONS, section: ctx.id },
  });
  closers.push(() => client.close());
  return createHttpSource({ client, baseUrl: config.baseUrl, apiKey: config.apiKey });
}
