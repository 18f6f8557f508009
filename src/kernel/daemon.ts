import { type AccessBootstrap, accessBootstrap, type FirstKey } from '../ports/access.ts';
import type { ConfigValues, CrewDuties, CrewMember } from '../ports/crew.ts';
import type { InheritedSockets } from '../ports/inherited-sockets.ts';
import { ROLES } from '../ports/role.ts';
import type { Store } from '../ports/store.ts';
import { type AssembleOptions, type Assembly, assemble } from './assembly/assemble.ts';
import { createFronts, type DaemonAddresses } from './assembly/daemon-fronts.ts';
import type { DaemonLoad } from './assembly/daemon-summary.ts';
import { createWork } from './assembly/daemon-work.ts';
import { createDrain } from './assembly/drain.ts';
import { createStageRunner, type Stage } from './assembly/stages.ts';
import { createCrew } from './crew/crew.ts';
import { createDuties } from './crew/duties.ts';
import { renderMetrics } from './crew/merge-metrics.ts';
import { createHealth } from './health.ts';
import { createLifecycle } from './plugins/lifecycle.ts';
import { createReloader } from './plugins/reload.ts';
import { ensureSchema } from './schema/ensure-schema.ts';
import { migrationScopes } from './schema/migration-scopes.ts';

export type { DaemonAddresses } from './assembly/daemon-fronts.ts';

export interface DaemonOptions extends AssembleOptions {
  /** Folder of store and caches. */
  readonly dataDir: string;
  /** Makes the first project and key when the store has none: with this key, or with a random one. */
  readonly firstProject: { readonly key?: string } | null;
  /** Listeners that the service manager holds open. */
  readonly sockets?: InheritedSockets;
  /** Roles of this process in threads of their own; they start and stop with the daemon. */
  readonly crew?: readonly CrewMember[];
  /** Whether this daemon is itself such a thread: then it neither listens nor migrates. */
  readonly isMember?: boolean;
}

export interface Daemon {
  /** Runs the stages. When one fails, everything is closed again and the error passed on. */
  start(): Promise<void>;
  addresses(): DaemonAddresses;
  /** Made by this start, or null. */
  firstKey(): FirstKey | null;
  reload(load: () => Promise<ConfigValues>): Promise<void>;
  load(): DaemonLoad;
  /** Proves that the store takes writes and that all roles answer. Errors: those of `Store.probe`, ROLE_SILENT, ROLE_ENDED. */
  probe(): Promise<void>;
  /** Not ready, refuses new requests, waits for accepted ones up to the drain deadline, then closes everything in reverse. */
  stop(): Promise<void>;
  /** Resolves when the daemon cannot go on; `stop` is still to be called. */
  readonly failed: Promise<unknown>;
  /** What the main thread may ask of a member. */
  readonly duties: CrewDuties;
}

/** Puts a daemon together; nothing is open before `start`. Errors: those of `assemble`. */
export async function createDaemon(options: DaemonOptions): Promise<Daemon> {
  const isMember = options.isMember ?? false;
  const assembly = await assemble({ ...options, processMetrics: !isMember });
  const { parts, config } = options;
  const { clock, log } = parts;
  const { core } = config;
  const { merged, metrics, roles } = assembly;
  const end = createEnd();
  const crew = createCrew({
    ...{ members: options.crew ?? [], lifecycle: core.lifecycle, metrics: metrics.scope('roles'), log },
  });
  void crew.failed.then(end.fail);
  const health = createHealth({
    ...{ checks: merged.checks, crew: crew.checks, version: options.version, clock, log },
    chains: () => assembly.chains.map(({ reader }) => reader.status()),
    maxReadyLagSlots: core.follow.maxReadyLagSlots,
  });
  const lifecycle = createLifecycle({ plugins: assembly.plugins, clock, log, ...core.lifecycle });
  tellChainKinds(assembly);
  const own = roles.size === ROLES.length ? null : [...roles].join('+');
  const metricsText = async () =>
    await renderMetrics([{ role: own, families: await metrics.families() }, ...(await crew.metrics())]);
  const fronts = isMember ? null : createFronts({ assembly, parts, health, metricsText, sockets: options.sockets });
  const work = createWork(assembly, parts, end.fail);
  const reloader = createReloader({ config, lifecycle, crew, setLogLevel: parts.setLogLevel, metrics, clock, log });
  const drain = createDrain({ timeoutMs: core.lifecycle.drainTimeoutMs, clock, log });
  let store: Store | null = null;
  let first: FirstKey | null = null;

  const stages: readonly Stage[] = [
    {
      name: 'open the store',
      async start() {
        store = await parts.openStore(core.store, options.dataDir);
        assembly.store.set(store);
      },
      stop: () => store?.close(),
    },
    {
      name: 'migrate',
      async start() {
        if (isMember) return;
        await ensureSchema(assembly.store.get(), migrationScopes(assembly.plugins), core.store.migrate, { clock, log });
      },
    },
    { name: 'make jobs and followers', start: () => work.make(assembly.store.get()) },
    { name: 'listen for operators', start: () => fronts?.listenAdmin(), stop: () => fronts?.closeAdmin() },
    connectUpstreams(assembly),
    { name: 'start plugins', start: () => lifecycle.start(), stop: () => lifecycle.stop() },
    {
      name: 'make the first project',
      async start() {
        if (options.firstProject !== null) first = await makeFirstProject(assembly, options.firstProject);
      },
    },
    { name: 'start the other roles', start: () => crew.start(), stop: () => crew.stop() },
    { name: 'run jobs', start: () => work.startJobs(), stop: () => work.stopJobs() },
    { name: 'follow the chains', start: () => work.startFollowing(), stop: () => work.stopFollowing() },
    { name: 'listen', start: () => fronts?.listenApi(), stop: () => fronts?.closeApi(drain.deadline) },
  ];
  const runner = createStageRunner(stages, log, clock);

  let draining: Promise<void> | null = null;
  function drainAll(): Promise<void> {
    health.setDraining();
    fronts?.beginDrain();
    draining ??= drain.wait([lifecycle.drain(), work.drain(), crew.drain()]);
    return draining;
  }

  const daemon: Omit<Daemon, 'duties'> = {
    async start() {
      await runner.start();
      health.setStarted();
      log.info(fronts?.addresses() ?? {}, 'ready');
    },
    addresses() {
      if (fronts === null) throw new Error('a member does not listen');
      return fronts.addresses();
    },
    firstKey: () => first,
    reload: reloader.reload,
    load: () => ({
      chains: assembly.chains.map(({ reader }) => reader.status()),
      ...(fronts?.load() ?? { requests: 0, inFlight: 0 }),
    }),
    async probe() {
      await Promise.all([assembly.store.get().probe(), crew.ping()]);
    },
    async stop() {
      log.info({}, 'stopping');
      await drainAll();
      await runner.stop();
      drain.end();
      log.info({}, 'stopped');
    },
    failed: end.failed,
  };
  return { ...daemon, duties: createDuties({ daemon, drain: drainAll, health, metrics, reloader }) };
}

/** The deliverer asks no upstream anything, so there they are not looked at; they would answer all the same. */
function connectUpstreams({ chains, roles }: Assembly): Stage {
  const sources = roles.has('indexer') ? chains : [];
  const pools = roles.has('api') ? chains : sources;
  return {
    name: 'connect upstreams',
    async start() {
      await Promise.all(pools.map(({ pool }) => pool.start()));
      await Promise.all(sources.map(({ source }) => source.start()));
    },
    async stop() {
      await Promise.all(sources.map(({ source }) => source.stop()));
      await Promise.all(chains.map(({ pool }) => pool.stop()));
    },
  };
}

/** `parhelion_chain_info{kind="local"} 1`: nobody should have to guess whether the data is of a public network. */
function tellChainKinds({ chains, metrics }: Assembly): void {
  const info = metrics.scope('chain').gauge('info', 'which kind of chain is served', ['chain', 'kind']);
  for (const { setup } of chains) info.with(setup.id, setup.kind).set(1);
}

/** The first fatal error; later ones only follow from it. */
function createEnd() {
  let fail: (error: unknown) => void = () => undefined;
  const failed = new Promise<unknown>((resolve) => {
    fail = resolve;
  });
  return { failed, fail: (error: unknown) => fail(error) };
}

async function makeFirstProject({ plugins }: Assembly, options: { readonly key?: string }): Promise<FirstKey | null> {
  const services = plugins.flatMap(({ contribution }) => contribution.services ?? []);
  const bootstrap = services.find(({ token }) => token.id === accessBootstrap.id)?.service as
    | AccessBootstrap
    | undefined;
  return (await bootstrap?.ensureFirstProject(options)) ?? null;
}
