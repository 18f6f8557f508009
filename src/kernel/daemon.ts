import { messageOf } from '../lib/coded-error.ts';
import { type AccessBootstrap, accessBootstrap, type FirstKey } from '../ports/access.ts';
import type { InheritedSockets } from '../ports/inherited-sockets.ts';
import type { Store } from '../ports/store.ts';
import { type AssembleOptions, type Assembly, assemble } from './assembly/assemble.ts';
import { createFronts, type DaemonAddresses } from './assembly/daemon-fronts.ts';
import type { DaemonLoad } from './assembly/daemon-summary.ts';
import { createWork } from './assembly/daemon-work.ts';
import { createStageRunner, type Stage } from './assembly/stages.ts';
import type { LoadedConfig } from './config/load.ts';
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
}

export interface Daemon {
  /** Runs the stages. When one fails, everything is closed again and the error passed on. */
  start(): Promise<void>;
  addresses(): DaemonAddresses;
  /** Made by this start, or null. */
  firstKey(): FirstKey | null;
  reload(load: () => Promise<LoadedConfig>): Promise<void>;
  load(): DaemonLoad;
  /** Proves that the store takes writes. Errors: those of `Store.probe`. */
  probe(): Promise<void>;
  /** Not ready, refuses new requests, waits for accepted ones up to the drain deadline, then closes everything in reverse. */
  stop(): Promise<void>;
  /** Resolves when the daemon cannot go on; `stop` is still to be called. */
  readonly failed: Promise<unknown>;
}

/** Puts a daemon together; nothing is open before `start`. Errors: those of `assemble`. */
export async function createDaemon(options: DaemonOptions): Promise<Daemon> {
  const assembly = await assemble(options);
  const { parts, config } = options;
  const { clock, log } = parts;
  const { core } = config;
  const { merged, metrics } = assembly;
  const end = createEnd();
  const health = createHealth({
    checks: merged.checks,
    chains: () => assembly.chains.map(({ reader }) => reader.status()),
    maxReadyLagSlots: core.follow.maxReadyLagSlots,
    version: options.version,
    clock,
    log,
  });
  const lifecycle = createLifecycle({ plugins: assembly.plugins, clock, log, ...core.lifecycle });
  tellChainKinds(assembly);
  const fronts = createFronts(assembly, parts, health, options.sockets);
  const work = createWork(assembly, parts, end.fail);
  const reloader = createReloader({ config, lifecycle, setLogLevel: parts.setLogLevel, metrics, clock, log });
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
        await ensureSchema(assembly.store.get(), migrationScopes(assembly.plugins), core.store.migrate, { clock, log });
      },
    },
    { name: 'make jobs and followers', start: () => work.make(assembly.store.get()) },
    { name: 'listen for operators', start: () => fronts.listenAdmin(), stop: () => fronts.closeAdmin() },
    connectUpstreams(assembly),
    { name: 'start plugins', start: () => lifecycle.start(), stop: () => lifecycle.stop() },
    {
      name: 'make the first project',
      async start() {
        if (options.firstProject !== null) first = await makeFirstProject(assembly, options.firstProject);
      },
    },
    { name: 'run jobs', start: () => work.startJobs(), stop: () => work.stopJobs() },
    { name: 'follow the chains', start: () => work.startFollowing(), stop: () => work.stopFollowing() },
    { name: 'listen', start: () => fronts.listenApi(), stop: () => fronts.closeApi() },
  ];
  const runner = createStageRunner(stages, log, clock);

  async function drain(): Promise<void> {
    health.setDraining();
    fronts.beginDrain();
    await Promise.all([lifecycle.drain(), work.drain()]);
  }

  return {
    async start() {
      await runner.start();
      health.setStarted();
      log.info({ ...fronts.addresses() }, 'ready');
    },
    addresses: fronts.addresses,
    firstKey: () => first,
    reload: reloader.reload,
    load: () => ({ chains: assembly.chains.map(({ reader }) => reader.status()), ...fronts.load() }),
    probe: () => assembly.store.get().probe(),
    async stop() {
      log.info({}, 'stopping');
      await drain().catch((error: unknown) => log.error({ error: messageOf(error) }, 'drain failed'));
      await runner.stop();
      log.info({}, 'stopped');
    },
    failed: end.failed,
  };
}

function connectUpstreams({ chains }: Assembly): Stage {
  return {
    name: 'connect upstreams',
    async start() {
      await Promise.all(chains.map(({ pool }) => pool.start()));
      await Promise.all(chains.map(({ source }) => source.start()));
    },
    async stop() {
      await Promise.all(chains.map(({ source }) => source.stop()));
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
