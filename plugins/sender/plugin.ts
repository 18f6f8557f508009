import {
  defineRoute,
  type PluginContext,
  type Route,
  Type,
  text,
  type UpstreamConfig,
  type UpstreamPool,
} from '../../src/plugin/plugin.ts';
import { sendRoutes } from '../../src/ports/upstream.ts';
import { broadcast, createProtection, createRebroadcast, type Rebroadcast, sendBody } from './broadcast.ts';
import type { SenderConfig } from './config.ts';
import { type Bundles, createBundles, createFastRoute, createSendRoutes, SENDER } from './routes.ts';
import { createNonceCheck } from './transaction.ts';

export function provision(ctx: PluginContext<SenderConfig>): void {
  const { config } = ctx;
  const pool = config.urls.length === 0 ? ctx.upstreams('main') : ctx.openPool('send', config.urls.map(entryOf));
  const bundlePool = config.bundleUrls.length === 0 ? null : ctx.openPool('bundle', config.bundleUrls.map(entryOf));
  const rebroadcast = pool === null || !config.rebroadcast.enabled ? null : makeRebroadcast(ctx);
  const protection = createProtection(config.urls.length === 0 ? null : pool, config.urls, config);
  const bundles = bundlePool === null ? null : makeBundles(bundlePool, config);
  const { clock, metrics } = ctx;
  const isNonceCurrent = createNonceCheck(ctx.chain('main'));
  const fast = createFastRoute({ config, pool, bundles, protection, clock, metrics, rebroadcast, isNonceCurrent });
  ctx.provide(sendRoutes, createSendRoutes({ bundles, protection, config }));
  ctx.http.route(pingRoute(() => isUp(pool)));
  if (config.enabled) ctx.http.route(fast);
  ctx.onStop(() => rebroadcast?.stop());
}

const entryOf = (entry: SenderConfig['urls'][number] | SenderConfig['bundleUrls'][number]): UpstreamConfig =>
  typeof entry === 'string' ? { url: entry } : entry;

/** From the state of the pool; sends no request. */
const isUp = (pool: UpstreamPool | null) => pool === null || pool.states().some(({ healthy }) => healthy);

function pingRoute(up: () => boolean): Route {
  return defineRoute({
    method: 'GET',
    path: '/ping',
    summary: 'Keeps a connection to the sender warm',
    tag: SENDER,
    auth: 'none',
    errors: 'text',
    replies: {
      200: Type.String({ description: 'The sender is up', examples: ['ok'] }),
      503: Type.String({ description: 'The sender is not available', examples: ['service unavailable'] }),
    },
    handler: () => (up() ? text('ok') : { ...text('service unavailable', 503), headers: { 'retry-after': '1' } }),
  });
}

function makeBundles(pool: UpstreamPool, config: SenderConfig): Bundles {
  return createBundles(pool, createProtection(pool, config.bundleUrls, config), config);
}

function makeRebroadcast(ctx: PluginContext<SenderConfig>): Rebroadcast {
  const { config } = ctx;
  return createRebroadcast({
    reader: ctx.chain('main'),
    clock: ctx.clock,
    log: ctx.log,
    metrics: ctx.metrics,
    limits: config.rebroadcast,
    async send({ wire }, targets, tenant) {
      // Preflight ran with the first transmission; a repetition needs no check.
      const body = sendBody(wire, { skipPreflight: true, maxRetries: 0 });
      await broadcast(targets, body, config.timeoutMs, tenant).catch(() => {});
    },
  });
}
