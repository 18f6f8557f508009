import type { ChainId, Contribution, PluginContext } from '../../src/kernel/plugin.ts';
import type { AccessPlans } from '../../src/ports/access.ts';
import type { GapBook } from '../../src/ports/gaps.ts';
import type { Outbox } from '../../src/ports/outbox.ts';
import { createBodies } from './bodies/create-bodies.ts';
import type { WebhooksConfig } from './config.ts';
import { createDeliveryKind } from './delivery/job-kind.ts';
import { createDeliveryMetrics } from './delivery/metrics.ts';
import { createOutboxQueue } from './delivery/outbox-queue.ts';
import { createPace } from './delivery/pace.ts';
import { deliveryKind } from './delivery/payload.ts';
import { createSend } from './delivery/send.ts';
import { createInputRules } from './input/rules.ts';
import type { ManageContext } from './manage/context.ts';
import { createDepth } from './match/depth.ts';
import { createHookIndex } from './match/hook-index.ts';
import { createHookRoom } from './match/hook-room.ts';
import { createWebhooksProcessor, PROCESSOR_NAME } from './match/processor.ts';
import { createHookSync } from './match/sync.ts';
import { addressRoutes } from './routes/addresses.ts';
import { deliveryRoutes } from './routes/deliveries.ts';
import { gapsRoute } from './routes/gaps.ts';
import { hookRoutes } from './routes/hooks.ts';
import { rotateRoute } from './routes/rotate.ts';
import { testEventRoute } from './routes/test-event.ts';

import { createUpkeep } from './upkeep.ts';

/** Puts the parts of the plugin together. */
export function assembleWebhooks(
  ctx: PluginContext<WebhooksConfig>,
  outbox: Outbox,
  gaps: GapBook | null,
  plans: AccessPlans | null,
): Contribution {
  const { config, store, clock, random, log } = ctx;
  const client = ctx.outbound.open({
    allowCidrs: config.allowCidrs,
    allowHttp: config.allowHttp,
    allowPorts: config.allowPorts,
    caFile: config.caFile,
    maxConnections: config.concurrency.global,
    section: ctx.id,
  });
  const chains: readonly ChainId[] = ctx.core.upstream.devnet.urls.length > 0 ? ['main', 'devnet'] : ['main'];
  const queue = createOutboxQueue({ outbox, enqueue: ctx.enqueue, chains });
  const depth = createDepth(config.outbox.maxRows);
  ctx.metrics.observe('waiting', 'Deliveries that are not finished', depth.value);
  const upkeep = createUpkeep({ store, outbox, queue, depth, chains, clock, log, config });
  const metrics = createDeliveryMetrics(ctx.metrics);
  const send = createSend({ client, clock, config, version: ctx.version });
  const discardWaiting: ManageContext['discardWaiting'] = (tx, id, reason) => queue.discardWaiting(tx, id, reason);
  const bodies = createBodies(ctx);
  const context: ManageContext = {
    ...{ store, clock, random, config, plans, discardWaiting },
    rules: createInputRules(client.refusal, chains.includes('devnet'), bodies.forms),
  };
  const pace = createPace({
    clock,
    perWebhook: config.concurrency.perWebhook,
    ratePerSecond: config.ratePerSecond,
  });
  const jobParts = {
    ...{ store, send, pace, clock, random, config, metrics },
    autoDisable: { clock, log, rules: config.autoDisable, discardWaiting, disabled: metrics.disabled },
  };
  return {
    routes: [
      ...hookRoutes(context),
      ...addressRoutes(context),
      rotateRoute(context),
      testEventRoute(context, send),
      ...deliveryRoutes(context, queue),
      ...(gaps === null ? [] : [gapsRoute(gaps, PROCESSOR_NAME)]),
    ],
    processors: [
      createWebhooksProcessor({
        ...{ queue, clock, chains, depth, bodies, matched: metrics.matched },
        room: createHookRoom(queue, { perWebhook: config.outbox.maxPerWebhook, held: config.hold.maxRows }),
        sync: createHookSync(() => createHookIndex(random)),
      }),
    ],
    jobs: chains.map((chain) => createDeliveryKind(deliveryKind(chain), jobParts)),
    start: () => upkeep.start(ctx.roles),
    stop: () => {
      upkeep.stop();
      return client.close();
    },
  };
}
