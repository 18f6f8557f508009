import { join } from 'node:path';
import { followedSubscriptions, type HostContext } from '../../src/plugin/host.ts';
import { accessCharges } from '../../src/ports/access.ts';
import { keptAnswers } from '../../src/ports/address-history.ts';
import { sendRoutes } from '../../src/ports/upstream.ts';
import { createAsk, createSticky } from './ask.ts';
import { createAnswerCache, createDiskCache, type DiskCache } from './cache/answer-cache.ts';
import { type CachedAsk, createCachedAsk, createChainIdentity } from './cache/cached-ask.ts';
import { createEpochs } from './cache/epochs.ts';
import type { ProxyConfig } from './config.ts';
import { createFallback, createMethodPrices } from './fallback.ts';
import { forwardedMethods } from './methods.ts';
import { describeSlotFinality } from './slot-finality.ts';
import { createSockets } from './socket/handler.ts';
import { createSubscriptionHub, type SubscriptionHub } from './socket/hub.ts';

type Context = HostContext<ProxyConfig>;
type Pool = NonNullable<ReturnType<Context['upstreams']>>;

export function provision(ctx: Context): void {
  const pool = ctx.upstreams('main');
  const price = createMethodPrices(ctx.config.credits);
  const disk = openDisk(ctx);
  let hub: SubscriptionHub | null = null;
  const sockets = createSockets({
    hub: () => hub,
    followed: ctx.use(followedSubscriptions) ?? null,
    config: ctx.config.websocket,
    http: ctx.core.http,
    clock: ctx.clock,
    metrics: ctx.metrics,
    price: (method) => price(method, () => undefined),
    credits: ctx.config.credits,
    charges: ctx.use(accessCharges) ?? null,
  });
  ctx.host.rpcFallback(
    createFallback({
      methods: pool === null ? [] : forwardedMethods(),
      pool,
      price,
      routes: ctx.use(sendRoutes) ?? null,
      kept: ctx.use(keptAnswers) ?? null,
      ask: pool === null ? null : createAsk(askParts(ctx, pool)),
      cached: pool === null || !ctx.config.cache.enabled ? null : makeCache(ctx, pool, disk),
      config: ctx.config,
      allows: (method) => {
        const { allowMethods, denyMethods } = ctx.core.rpc;
        return !denyMethods.includes(method) && (allowMethods?.includes(method) ?? true);
      },
      maxItemBytes: () => Math.min(ctx.core.rpc.maxBatchBytes, ctx.core.rpc.maxUpstreamBytes),
    }),
  );
  if (pool !== null)
    ctx.rpc.method(
      describeSlotFinality(
        ctx,
        price('getSlotFinality', () => undefined),
      ),
    );
  ctx.host.sockets(sockets);
  ctx.onStart(() => {
    if (pool !== null && ctx.roles.has('api')) hub = createSubscriptionHub(hubParts(ctx, pool));
  });
  ctx.onDrain(() => sockets.drain());
  ctx.onStop(async () => {
    sockets.stop();
    hub?.close();
    await disk?.idle();
  });
}

function askParts({ clock, log, metrics, config, core }: Context, pool: Pool) {
  return {
    pool,
    clock,
    log,
    metrics,
    sticky: createSticky(clock, config),
    get timeoutMs() {
      return core.rpc.upstreamTimeoutMs;
    },
    get maxBytes() {
      return core.rpc.maxUpstreamBytes;
    },
  };
}

function hubParts({ clock, random, log, metrics, config: { websocket } }: Context, pool: Pool) {
  return {
    pool,
    clock,
    random,
    log,
    metrics,
    limits: websocket,
  };
}

function openDisk({ config: { cache }, core, clock, random, log }: Context): DiskCache | null {
  if (!cache.enabled || cache.disk === 'off') return null;
  const dir = join(core.dataDir, 'cache', 'rpc');
  return createDiskCache({ dir, maxBytes: cache.diskBytes, pendingBytes: cache.diskPendingBytes, clock, random, log });
}

function makeCache(ctx: Context, pool: Pool, disk: DiskCache | null): CachedAsk {
  const { memoryBytes, maxEntryBytes } = ctx.config.cache;
  const reader = ctx.chain('main');
  return createCachedAsk({
    cache: createAnswerCache({ memoryBytes, maxEntryBytes, disk: () => disk, metrics: ctx.metrics }),
    identity: createChainIdentity(pool, reader, ctx.clock),
    epochs: createEpochs(reader, ctx.clock),
    disk: ctx.config.cache.disk,
    maxEntryBytes,
    finalizedSlot: () => reader?.status().finalizedSlot ?? null,
  });
}
