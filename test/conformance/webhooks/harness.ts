import type { TestContext } from 'node:test';
import { Value } from '@sinclair/typebox/value';
import { type WebhooksConfig, webhooksConfig } from '../../../plugins/webhooks/config.ts';
import { provision } from '../../../plugins/webhooks/plugin.ts';
import { migrations } from '../../../plugins/webhooks/store/tables.ts';
import { createSystemClock, createSystemRandom } from '../../../src/adapters/clock.ts';
import { createOutbound } from '../../../src/adapters/outbound/index.ts';
import { createGapRecords } from '../../../src/chain/gaps.ts';
import { followerMigrations } from '../../../src/chain/tables.ts';
import { type CoreConfig, coreConfig } from '../../../src/config/core.ts';
import { createRegistration } from '../../../src/daemon/provision.ts';
import { createOutbox } from '../../../src/jobs/outbox.ts';
import { createJobRunner, type JobRunner } from '../../../src/jobs/runner.ts';
import { jobMigrations } from '../../../src/jobs/table.ts';
import type { HostContext } from '../../../src/plugin/host.ts';
import type { BlockProcessor, RequestError, Route } from '../../../src/plugin/plugin.ts';
import { type AccessCharges, type AccessPlans, accessCharges, accessPlans } from '../../../src/ports/access.ts';
import type { ChainBlock } from '../../../src/ports/block.ts';
import type { ChainStatus } from '../../../src/ports/chain.ts';
import type { Clock, Random } from '../../../src/ports/clock.ts';
import { kernelGaps } from '../../../src/ports/following.ts';
import type { Outbound } from '../../../src/ports/outbound.ts';
import { kernelOutbox, type Outbox } from '../../../src/ports/outbox.ts';
import { type ParsedTransactions, parsedTransactions } from '../../../src/ports/parsed-transactions.ts';
import type { Store } from '../../../src/ports/store.ts';
import { createMetricsRegistry } from '../../../src/runtime/metrics.ts';
import { migrate } from '../../../src/store/migrate.ts';
import { createMemoryLog } from '../../helpers/memory-log.ts';
import type { ApiAnswer } from './daemon.ts';

/** The plugin with the real store, job runner, outbox and client, without HTTP front and follower: blocks are given by hand. */
export interface Harness {
  readonly store: Store;
  readonly runner: JobRunner;
  readonly outbox: Outbox;
  readonly processor: BlockProcessor;
  readonly log: ReturnType<typeof createMemoryLog>;
  /** Prometheus text format. */
  metrics(): Promise<string>;
  /** Starts the plugin's own timers. */
  start(): Promise<void>;
  /** Calls the handler of a route as the project. */
  call(method: string, path: string, body?: unknown): Promise<ApiAnswer>;
  apply(block: ChainBlock): Promise<void>;
  /** Gives a block to the processor of replays. */
  replay(block: ChainBlock): Promise<void>;
  /** Rolls blocks back, newest first. */
  revert(...blocks: ChainBlock[]): Promise<void>;
}

export interface HarnessOptions {
  readonly store: Store;
  readonly clock?: Clock;
  readonly webhooks?: object;
  /** Default true. */
  readonly deliver?: boolean;
  readonly jobs?: Partial<CoreConfig['jobs']>;
  /** What other plugins offer. */
  readonly charges?: AccessCharges;
  readonly plans?: Partial<AccessPlans>;
  readonly random?: Random;
  /** Instead of the network. */
  readonly outbound?: Outbound;
  /** A process that was killed is not stopped at the end. */
  readonly isDead?: () => boolean;
  /** What is known of a chain; default nothing. */
  readonly status?: () => Partial<ChainStatus>;
  /** Default: transactions cannot be parsed. */
  readonly parsed?: ParsedTransactions;
  /** Who calls; default `p`. */
  readonly projectId?: string;
}

const NO_PLANS: AccessPlans = {
  maxWebhooks: async () => null,
  maxAddresses: async () => null,
  budgets: async () => null,
};
const LOOPBACK = { allowCidrs: ['127.0.0.0/8'], allowHttp: true } as const;

export async function startHarness(t: Pick<TestContext, 'after'>, options: HarnessOptions): Promise<Harness> {
  const { store, clock = createSystemClock(), deliver = true } = options;
  const random = options.random ?? createSystemRandom();
  const log = createMemoryLog();
  const core = Value.Default(coreConfig, {}) as CoreConfig;
  const config = Value.Default(webhooksConfig, { ...LOOPBACK, ...options.webhooks }) as WebhooksConfig;
  const metrics = createMetricsRegistry();
  await migrate(store, [
    { scope: 'kernel.jobs', migrations: jobMigrations },
    { scope: 'kernel.follower', migrations: followerMigrations },
    { scope: 'webhooks', migrations },
  ]);
  let runner: JobRunner | null = null;
  const outbox = createOutbox({ store, clock, wake: () => runner?.wake() });
  const services = new Map<string, unknown>([
    [kernelOutbox.id, outbox],
    [parsedTransactions.id, options.parsed],
    [kernelGaps.id, createGapRecords(store, clock)],
    [accessCharges.id, options.charges],
    [accessPlans.id, options.plans === undefined ? undefined : { ...NO_PLANS, ...options.plans }],
  ]);
  const registration = createRegistration('webhooks', clock, log);
  const context = {
    id: 'webhooks',
    config,
    core,
    version: '0.0.0-test',
    log,
    clock,
    random,
    store,
    roles: new Set(['api', 'indexer', 'deliverer']),
    metrics: metrics.scope('webhooks'),
    chain: () => (options.status === undefined ? null : { status: options.status }),
    outbound: options.outbound ?? createOutbound({ clock, log }),
    use: (token: { readonly id: string }) => services.get(token.id),
    ...registration.methods,
    jobs: { ...registration.methods.jobs, add: (tx: never, jobs: never) => runner?.enqueue(tx, jobs) },
  } as unknown as HostContext<WebhooksConfig>;
  provision(context);
  const parts = registration.close();
  runner = createJobRunner({
    store,
    owner: null,
    clock,
    random,
    log,
    kinds: parts.jobs ?? [],
    metrics: metrics.scope('jobs'),
    config: { ...core.jobs, ...options.jobs },
  });
  const started = runner;
  if (deliver) await started.start();
  t.after(async () => {
    if (options.isDead?.() === true) return;
    await started.stop();
    await parts.stop?.(AbortSignal.timeout(1_000));
  });
  const processor = parts.processors?.[0];
  const replay = parts.processors?.find(({ name }) => name === 'webhooks-replay');
  if (processor === undefined || replay === undefined) throw new Error('the plugin has no processor');
  const give = async (one: BlockProcessor, block: ChainBlock): Promise<void> => {
    await one.prepare?.(block, 'main');
    await store.write((tx) => one.apply(tx, block, 'main'));
  };
  return {
    store,
    runner: started,
    outbox,
    processor,
    log,
    metrics: metrics.text,
    start: async () => parts.start?.(AbortSignal.timeout(1_000)),
    call: (method, path, body) => callRoute(parts.routes ?? [], options.projectId ?? 'p', method, path, body),
    apply: (block) => give(processor, block),
    replay: (block) => give(replay, block),
    revert: (...blocks) =>
      store.write(async (tx) => {
        for (const block of blocks) await processor.revert(tx, block, 'main');
      }),
  };
}

async function callRoute(
  routes: readonly Route[],
  projectId: string,
  method: string,
  path: string,
  body: unknown,
): Promise<ApiAnswer> {
  for (const route of routes) {
    const params = route.method === method ? paramsOf(route.path, path) : null;
    if (params === null) continue;
    const log = createMemoryLog();
    const caller = { projectId, keyId: 'k', plan: 'unlimited', wallet: null };
    const signal = new AbortController().signal;
    const request = { method, path, params, query: { limit: 50 }, headers: {}, body, caller, log, signal };
    try {
      const reply = await route.handler(request as never);
      const value = reply.json as { text?: unknown } | undefined;
      return { status: reply.status, body: typeof value?.text === 'string' ? JSON.parse(value.text) : value };
    } catch (error) {
      const { status, message } = error as RequestError;
      if (status === undefined) throw error;
      return { status, body: { error: message, code: status } };
    }
  }
  throw new Error(`no route ${method} ${path}`);
}

function paramsOf(pattern: string, path: string): Record<string, string> | null {
  const names = pattern.split('/');
  const parts = path.split('/');
  if (names.length !== parts.length) return null;
  const params: Record<string, string> = {};
  for (const [at, name] of names.entries()) {
    const part = parts[at] ?? '';
    if (name.startsWith(':')) params[name.slice(1)] = part;
    else if (name !== part) return null;
  }
  return params;
}
