import { EXIT } from '../../src/lib/coded-error.ts';
import type { HostContext } from '../../src/plugin/host.ts';
import { type ChainId, CodedError } from '../../src/plugin/plugin.ts';
import {
  type AccessCharges,
  type AccessPlans,
  accessCharges,
  accessPlans,
  accessRemoval,
  type StoredBudgets,
  storedBudgets,
} from '../../src/ports/access.ts';
import { type Following, type GapRecords, kernelFollowing, kernelGaps } from '../../src/ports/following.ts';
import type { OutboundClient } from '../../src/ports/outbound.ts';
import { kernelOutbox, type Outbox } from '../../src/ports/outbox.ts';
import { parsedTransactions } from '../../src/ports/parsed-transactions.ts';
import { type SinkEvents, sinkEvents } from '../../src/ports/sink.ts';
import { createBodies } from './bodies.ts';
import { webhookCommands } from './commands.ts';
import { WEBHOOKS_ERRORS, type WebhooksConfig } from './config.ts';
import type { AutoDisableParts } from './delivery/auto-disable.ts';
import { createDeliveryKind, createDeliveryMetrics, createHookLoader } from './delivery/job.ts';
import { createPace, type Pace } from './delivery/pace.ts';
import { createOutboxQueue, createWaitingDeliveries } from './delivery/queue.ts';
import { createPost, createSend, userAgentOf } from './delivery/send.ts';
import { HOUR_STATES } from './health.ts';
import { createHookIndex, createHookSync } from './hook-index.ts';
import { createInputRules } from './input.ts';
import { createMailer } from './mail.ts';
import { createEnsureFollowed, type ManageContext, removeHooksOf } from './manage.ts';
import {
  createDepth,
  createHookRoom,
  createParsedMatcher,
  createWebhooksProcessor,
  PROCESSOR_NAME,
  storedOf,
} from './match.ts';
import { deliveryKind, type NetworkOf, networkName } from './model.ts';
import { createOperationalKind, createOperatorAlerts } from './operational.ts';
import { contactRoutes, createOwnerAlerts, createOwnerKind, removeContact } from './owner-alerts.ts';
import { countReplays, createReplayProcessor, createReplays } from './replay.ts';
import { deliveryRoutes } from './routes/deliveries.ts';
import { healthRoutes } from './routes/health.ts';
import { addressRoutes, hookRoutes, rotateRoute, testEventRoute } from './routes/hooks.ts';
import { gapsRoute, recoverRoutes } from './routes/recover.ts';
import { endPause } from './store/health.ts';
import type { WebhookDb } from './store/tables.ts';
import { createWebhookUpkeep } from './upkeep.ts';

export function provision(ctx: HostContext<WebhooksConfig>): void {
  const outbox = ctx.use(kernelOutbox);
  if (outbox === undefined) throw new CodedError('WEBHOOKS_NO_OUTBOX', WEBHOOKS_ERRORS.WEBHOOKS_NO_OUTBOX);
  assembleWebhooks(ctx, {
    outbox,
    gaps: ctx.use(kernelGaps) ?? null,
    plans: ctx.use(accessPlans) ?? null,
    charges: ctx.use(accessCharges) ?? null,
    budgets: ctx.use(storedBudgets) ?? null,
    following: ctx.use(kernelFollowing) ?? null,
    events: ctx.use(sinkEvents) ?? null,
  });
}

/** Services of other plugins and the daemon; null when absent. */
interface WebhookServices {
  readonly outbox: Outbox;
  readonly gaps: GapRecords | null;
  readonly plans: AccessPlans | null;
  readonly charges: AccessCharges | null;
  readonly budgets: StoredBudgets | null;
  readonly following: Following | null;
  readonly events: SinkEvents | null;
}

/** Assembles and registers the parts of the plugin. */
function assembleWebhooks(ctx: HostContext<WebhooksConfig>, services: WebhookServices): void {
  const { config, store, clock, random, log } = ctx;
  const { outbox, gaps, plans, charges, budgets, following, events } = services;
  const client = openClient(ctx);
  checkOperational(config.operational, client);
  const chains: readonly ChainId[] = ctx.core.upstream.devnet.urls.length > 0 ? ['main', 'devnet'] : ['main'];
  const queue = createOutboxQueue({ outbox, enqueue: ctx.jobs.add, chains });
  const waiting = createWaitingDeliveries(queue, config.hold);
  const depth = createDepth(config.outbox);
  ctx.metrics.observe('waiting', 'Unfinished deliveries, counted every 10 s', depth.value);
  const failing = ctx.metrics.gauge(
    'failing',
    'Webhooks whose attempts of the last hour mostly failed, counted every minute',
  );
  const byHealth = ctx.metrics.gauge(
    'by_health',
    'Webhooks by how their attempts of the last hour went, counted every minute',
    ['state'],
  );
  const metrics = createDeliveryMetrics(ctx.metrics);
  const userAgent = userAgentOf(ctx.version);
  const post = createPost(client, clock);
  const networkOf: NetworkOf = (chain) => (ctx.chain(chain)?.status().kind === 'local' ? 'local' : networkName(chain));
  const send = createSend({ post, clock, config, userAgent, networkOf });
  const bodies = createBodies(ctx);
  const parsed = ctx.use(parsedTransactions) ?? null;
  const context: ManageContext = {
    store,
    clock,
    random,
    config,
    plans,
    charges,
    budgets,
    waiting,
    ensureFollowed: createEnsureFollowed(following, log),
    rules: createInputRules(client.refusal, chains.includes('devnet'), bodies.forms, parsed),
  };
  const mailer = createMailer(config);
  const owners = createOwnerAlerts({ store, clock, random, enqueue: ctx.jobs.add, outbox, log, email: config.email });
  const operator = createOperatorAlerts(ctx, {
    outbox,
    gaps,
    chains,
    charges,
    owners,
    processor: PROCESSOR_NAME,
    networkOf,
  });
  const { alerts, gapAlerts, stallAlerts, reverted } = operator;
  const pace = paceOf(ctx);
  const autoDisable: AutoDisableParts = {
    clock,
    log,
    rules: config.autoDisable,
    alerts,
    disabled: metrics.disabled,
    becameInactive: waiting.becameInactive,
  };
  // A command runs without a follower and measures stored blocks instead.
  const slotMs = async (chain: ChainId) =>
    ctx.chain(chain)?.status().slotMs ?? (await following?.slotMs(chain)) ?? null;
  const replays = gaps === null ? null : createReplays({ gapRecords: gaps, store, clock, random, slotMs });
  const upkeep = createWebhookUpkeep({
    store,
    queue,
    depth,
    chains,
    clock,
    log,
    config,
    charges,
    autoDisable,
    replays,
    gapAlerts,
    stallAlerts,
    refreshOwners: owners.refresh,
    counted(states) {
      failing.set(states.failing);
      for (const state of HOUR_STATES) byHealth.with(state).set(states[state]);
    },
  });
  const jobParts = { store, queue, send, pace, clock, random, config, metrics, charges, alerts, autoDisable, events };
  const room = createHookRoom(queue, clock, { config, plans, budgets });
  ctx.use(accessRemoval)?.onDelete(async (tx, project) => {
    await removeHooksOf(context, tx, project);
    await endPause(tx, project);
    await removeContact(tx, project);
  });
  budgets?.provide(async (project) => {
    const limits = (await plans?.budgets(store.read, project)) ?? null;
    const { events, bytes } = await storedOf(queue, store.read as WebhookDb, project);
    return {
      storedEvents: { used: events, limit: limits?.storedEvents ?? null },
      storedEventBytes: { used: bytes, limit: limits?.storedEventBytes ?? null },
      replays: { used: await countReplays(store.read, project, clock.now()), limit: limits?.replays ?? null },
    };
  });
  const sync = createHookSync(() => createHookIndex(random, parsed));
  const matcher = parsed === null ? null : createParsedMatcher({ sync, store, clock, log });
  const matchParts = { queue, clock, chains, bodies, room, sync, store, parsed: matcher };
  const routes = [
    ...healthRoutes({ context, queue }),
    ...contactRoutes({ store, clock, rules: context.rules, owners, canMail: mailer !== null }),
    ...hookRoutes(context),
    ...addressRoutes(context),
    rotateRoute(context),
    testEventRoute(context, send, { bodies, parsed }),
    ...deliveryRoutes({ context, queue, charges, userAgent, networkOf }),
    ...recoverRoutes({ context, replays, store, queue, charges }),
    ...(gaps === null ? [] : [gapsRoute(gaps, PROCESSOR_NAME)]),
  ];
  for (const route of routes) ctx.http.route(route);
  ctx.blocks.on(createWebhooksProcessor({ ...matchParts, depth, matched: metrics.matched, reverted }));
  ctx.blocks.on(createReplayProcessor(matchParts));
  const notices = { post, clock, random, config, userAgent, mailer };
  for (const chain of chains) ctx.jobs.define(createDeliveryKind(deliveryKind(chain), jobParts));
  ctx.jobs.define(createOperationalKind(notices));
  ctx.jobs.define(createOwnerKind(notices));
  for (const command of webhookCommands({ context, queue, send, bodies, parsed, replays, charges }))
    ctx.command(command);
  ctx.onStart(async () => {
    if (ctx.roles.has('deliverer')) await mailer?.ready();
    upkeep.start(ctx.roles);
  });
  ctx.onStop(() => {
    upkeep.stop();
    return client.close();
  });
}

const openClient = ({ config, outbound, id }: HostContext<WebhooksConfig>): OutboundClient =>
  outbound.open({
    allowCidrs: config.allowCidrs,
    allowHttp: config.allowHttp,
    allowPorts: config.allowPorts,
    caFile: config.caFile,
    maxConnections: config.concurrency.global,
    section: id,
  });

function paceOf({ config, store, clock }: HostContext<WebhooksConfig>): Pace {
  // A webhook with batches sends one request at a time until its first delivery has gathered a batch.
  const unknown = createHookLoader(store, (hook) => hook.batchSize === 1 && pace.learn(hook));
  const pace: Pace = createPace({ clock, config, unknown });
  return pace;
}

/** Finds an unusable operator address at the start. Throws WEBHOOKS_OPERATIONAL_URL. */
function checkOperational(operational: WebhooksConfig['operational'], client: Pick<OutboundClient, 'refusal'>): void {
  const reason = operational === null ? null : client.refusal(operational.url);
  if (reason === null) return;
  throw new CodedError('WEBHOOKS_OPERATIONAL_URL', `${WEBHOOKS_ERRORS.WEBHOOKS_OPERATIONAL_URL}: ${reason}`, {
    exitCode: EXIT.config,
  });
}
