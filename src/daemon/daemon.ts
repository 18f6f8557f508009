import type { ConfigValues, CrewDuties } from '../ports/crew.ts';
import type { Store } from '../ports/store.ts';
import { createSchemaWatch, ensureSchema } from '../store/schema/ensure-schema.ts';
import type { AssembledChain, Assembly } from './assemble.ts';
import { readChainIdentity, refuseOtherChain } from './chain-identity.ts';
import { createDuties } from './crew/duties.ts';
import type { DaemonAddresses } from './daemon-fronts.ts';
import type { DaemonLoad } from './daemon-summary.ts';
import { type FirstStart, type FirstStartOptions, makeFirstThings } from './first-start.ts';
import { type MachineryOptions, makeMachinery } from './machinery.ts';
import { migrationScopes } from './migration-scopes.ts';
import { createStageRunner, type Stage } from './stages.ts';

export type { DaemonAddresses } from './daemon-fronts.ts';

export interface DaemonOptions extends MachineryOptions, FirstStartOptions {
  /** Folder of store and caches. */
  readonly dataDir: string;
}

export interface Daemon {
  /** Runs the stages. When one fails, everything is closed again and the error passed on. */
  start(): Promise<void>;
  addresses(): DaemonAddresses;
  /** What this start made. */
  first(): FirstStart;
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
  const machinery = await makeMachinery(options);
  const { assembly, crew, health, lifecycle, fronts, work, reloader, drain, end } = machinery;
  const { parts } = options;
  const { clock, log } = parts;
  const { core } = options.config;
  const scopes = migrationScopes(assembly.plugins);
  const watch = createSchemaWatch({ store: assembly.store.get, scopes, clock, fail: end.fail });
  let store: Store | null = null;
  let first: FirstStart = { key: null, operatorToken: null };

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
        if (options.isMember === true) return;
        await ensureSchema(assembly.store.get(), scopes, core.store.migrate, { clock, log });
        watch.start();
      },
      stop: () => watch.stop(),
    },
    { name: 'make jobs and followers', start: () => work.make(assembly.store.get(), options.dataDir) },
    { name: 'listen for operators', start: () => fronts?.listenAdmin(), stop: () => fronts?.closeAdmin() },
    connectUpstreams(assembly),
    { name: 'start plugins', start: () => lifecycle.start(), stop: () => lifecycle.stop() },
    {
      name: 'make the first project',
      async start() {
        first = await makeFirstThings(assembly, options);
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
    first: () => first,
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
  return { ...daemon, duties: createDuties({ daemon, drain: drainAll, health, metrics: assembly.metrics, reloader }) };
}

/**
 * Every role looks at the upstreams itself: jobs of the deliverer ask them too, and none may take the answer of another chain for ours.
 * Before anything else is asked, the store says which chain that is. Errors: STORE_WRONG_CHAIN.
 */
function connectUpstreams({ chains, roles, store }: Assembly): Stage {
  const sources = roles.has('indexer') ? chains : [];
  async function connect({ pool, setup }: AssembledChain): Promise<void> {
    const known = await readChainIdentity(store.get(), setup.id);
    if (known !== null) pool.bind(known);
    await pool.start();
    if (known !== null) refuseOtherChain(pool, setup.id, known);
  }
  return {
    name: 'connect upstreams',
    async start() {
      await Promise.all(chains.map(connect));
      await Promise.all(sources.map(({ source }) => source.start()));
    },
    async stop() {
      await Promise.all(sources.map(({ source }) => source.stop()));
      await Promise.all(chains.map(({ pool }) => pool.stop()));
    },
  };
}
