import { stat, statfs } from 'node:fs/promises';
import { sql } from 'kysely';
import type { CoreConfig } from '../config/core.ts';
import { createHealth, type Health } from '../http/health.ts';
import { codeOf, messageOf } from '../lib/coded-error.ts';
import type { HealthCheck } from '../plugin/plugin.ts';
import { accessBootstrap, type FirstKey } from '../ports/access.ts';
import type { ChainId } from '../ports/chain.ts';
import type { Clock } from '../ports/clock.ts';
import { operatorBootstrap } from '../ports/daemon-view.ts';
import type {
  ApiProcess,
  ConfigValues,
  HandedSocket,
  InheritedSockets,
  SharedListeners,
  WorkerCommands,
  WorkerHandle,
} from '../ports/processes.ts';
import type { Store } from '../ports/store.ts';
import type { Log, Metrics } from '../ports/telemetry.ts';
import { wordsOf } from '../runtime/errors.ts';
import type { MetricsRegistry } from '../runtime/metrics.ts';
import { startEvery } from '../runtime/waiting.ts';
import { sqliteFile } from '../store/index.ts';
import { createSchemaWatch, ensureSchema } from '../store/migrate.ts';
import { type AssembledChain, type AssembleOptions, type Assembly, assemble, serviceOf } from './assemble.ts';
import { readChainIdentity, refuseOtherChain } from './chains.ts';
import type { DaemonAddresses } from './fronts.ts';
import { createLifecycle, createStageRunner, type Stage } from './lifecycle.ts';
import { migrationScopes } from './migrations.ts';
import { checkPluginConfig } from './provision.ts';
import { createReloader, type Reloaded, type Reloader } from './reload.ts';
import type { DaemonLoad } from './supervision.ts';
import { createWork } from './work.ts';
import { createWorkers, renderMetrics } from './workers.ts';

export interface DaemonOptions extends MachineryOptions, FirstStartOptions {
  /** Folder of store and caches. */
  readonly dataDir: string;
}

export interface Daemon {
  /** Runs the stages. If one fails, everything is closed again and its error is thrown. */
  start(): Promise<void>;
  addresses(): DaemonAddresses;
  /** Project, key and token that this start created. */
  first(): FirstStart;
  reload(load: () => Promise<ConfigValues>): Promise<Reloaded>;
  load(): DaemonLoad;
  /** Checks that the store accepts writes and that all roles answer. Errors: those of `Store.probe`, ROLE_SILENT, ROLE_ENDED. */
  probe(): Promise<void>;
  /** Becomes not ready, refuses new requests, waits for accepted ones up to the drain deadline, then closes everything in reverse. */
  stop(): Promise<void>;
  /** Resolves when the daemon cannot continue; the caller still has to call `stop`. */
  readonly failed: Promise<unknown>;
  /** Commands of the main thread to a worker. */
  readonly commands: Omit<WorkerCommands, 'listen'>;
  /** Only in a further process of the API, after its start. */
  listen(shared: SharedListeners): Promise<void>;
}

/** Creates a daemon; nothing is open before `start`. Errors: those of `assemble`. */
export async function createDaemon(options: DaemonOptions): Promise<Daemon> {
  const machinery = await makeMachinery(options);
  const { assembly, workers, health, lifecycle, fronts, work, reloader, drain, end } = machinery;
  const { parts } = options;
  const { clock, log } = parts;
  const { core } = options.config;
  // A worker does not migrate. The tables of plugins that only workers load are among them.
  const enabled = options.config.plugins.filter((plugin) => plugin.enabled);
  const scopes = options.isMember === true ? [] : await migrationScopes(enabled);
  const watch = createSchemaWatch({ store: assembly.store.get, scopes, clock, fail: end.fail });
  const storage = createStorage({
    store: assembly.store.get,
    url: core.store.url,
    dataDir: options.dataDir,
    clock,
    log,
    scope: assembly.metrics.scope,
  });
  let store: Store | null = null;
  let first: FirstStart = { key: null, operatorToken: null };

  const stages: readonly Stage[] = [
    { name: 'check the configuration', start: () => checkPluginConfig(assembly) },
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
    {
      name: 'measure the store',
      start: () => (options.isMember === true ? undefined : storage.start()),
      stop: () => storage.stop(),
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
    { name: 'start the other roles', start: () => workers.start(), stop: () => workers.stop() },
    { name: 'run jobs', start: () => work.startJobs(), stop: () => work.stopJobs() },
    { name: 'follow the chains', start: () => work.startFollowing(), stop: () => work.stopFollowing() },
    {
      name: 'listen',
      async start() {
        // A further process of the API gets the listeners once the main process has them.
        if (options.isMember === true) return;
        await fronts?.listenApi();
        await workers.listen();
      },
      stop: () => fronts?.closeApi(drain.deadline),
    },
  ];
  const runner = createStageRunner(stages, log, clock);

  let draining: Promise<void> | null = null;
  function drainAll(): Promise<void> {
    health.setDraining();
    fronts?.beginDrain();
    draining ??= drain.wait([lifecycle.drain(), work.drain(), workers.drain()]);
    return draining;
  }

  const daemon: Omit<Daemon, 'commands'> = {
    async start() {
      await runner.start();
      health.setStarted();
      log.info(options.isMember === true ? {} : (fronts?.addresses() ?? {}), 'ready');
    },
    addresses() {
      if (fronts === null) throw new Error('a worker does not listen');
      return fronts.addresses();
    },
    first: () => first,
    async listen(shared) {
      await fronts?.listenApi(shared);
    },
    reload: reloader.reload,
    load: () => ({
      chains: assembly.chains.map(({ reader }) => reader.status()),
      ...(fronts?.load() ?? { requests: 0, inFlight: 0 }),
    }),
    async probe() {
      await Promise.all([assembly.store.get().probe(), workers.ping()]);
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
  return {
    ...daemon,
    commands: createCommands({ daemon, drain: drainAll, health, metrics: assembly.metrics, reloader }),
  };
}

/**
 * Every role checks the upstreams itself, because jobs of the deliverer call them too, and no role may accept an answer of another chain.
 * The store determines the chain before any other call is made. Errors: STORE_WRONG_CHAIN.
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

interface CommandsOptions {
  readonly daemon: { start(): Promise<void>; stop(): Promise<void> };
  readonly drain: () => Promise<void>;
  readonly health: Pick<Health, 'checks'>;
  readonly metrics: Pick<MetricsRegistry, 'families'>;
  readonly reloader: Pick<Reloader, 'take'>;
}

/** Answers the commands of the main thread in a worker. */
function createCommands({ daemon, drain, health, metrics, reloader }: CommandsOptions): Daemon['commands'] {
  return {
    start: daemon.start,
    async ping() {},
    checks: () => health.checks(),
    metrics: () => metrics.families(),
    takeConfig: (next) => reloader.take(next),
    drain,
    stop: daemon.stop,
  };
}

export interface MachineryOptions extends AssembleOptions {
  /** Commit of the program, if it is known. */
  readonly commit?: string | null;
  /** Listeners that the service manager holds open. */
  readonly sockets?: InheritedSockets;
  /** Threads of this process; they start and stop with the daemon. */
  readonly workers?: readonly WorkerHandle[];
  /** Processes that share the listeners of this one; they start and stop with the daemon too. */
  readonly apiProcesses?: readonly ApiProcess[];
  /** Whether this daemon runs in a worker: then it does not migrate, and opens no listener of its own. */
  readonly isMember?: boolean;
  /** Only in a further process of the API: takes requests for websockets. */
  readonly handOver?: (handed: HandedSocket) => void;
}

/** The parts that the stages start and stop; nothing is open yet. Errors: those of `assemble`. */
async function makeMachinery(options: MachineryOptions) {
  const isMember = options.isMember ?? false;
  const assembly = await assemble({
    ...options,
    stockMetrics: options.stockMetrics ?? (isMember && options.handOver === undefined ? 'thread' : 'process'),
  });
  const { parts, config } = options;
  const { clock, log } = parts;
  const { core } = config;
  const { metrics, merged } = assembly;
  const end = createEnd();
  const workers = createWorkers({
    handles: options.workers ?? [],
    apiProcesses: options.apiProcesses ?? [],
    lifecycle: core.lifecycle,
    metrics: metrics.scope('roles'),
    clock,
    log,
    // Nothing is shared before the listeners exist.
    share: async (processes) => await fronts?.shareApi(processes),
  });
  void workers.failed.then(end.fail);
  const storeCheck = createStoreCheck(() => assembly.store.get().probe());
  const health = createHealth({
    // The main thread asks the workers; its own check of the store is sufficient.
    checks: isMember ? merged.checks : [storeCheck, ...merged.checks],
    workers: workers.checks,
    version: options.version,
    clock,
    log,
    chains: () => assembly.chains.map(({ reader }) => reader.status()),
    answers: (id) => answersOf(assembly, id),
    maxReadyLag: readyLagOf(core),
  });
  assembly.readiness.set(health.ready);
  void end.failed.then(health.setFailed);
  const lifecycle = createLifecycle({ plugins: assembly.plugins, clock, log, limits: core.lifecycle });
  const metricsText = async () =>
    await renderMetrics([{ role: null, families: await metrics.families() }, ...(await workers.metrics())]);
  exposeChainKinds(assembly);
  if (!isMember) exposeBuild(assembly, options.commit ?? null);
  const { handOver } = options;
  const fronts =
    isMember && handOver === undefined
      ? null
      : (await loadFronts())({
          assembly,
          parts,
          health,
          metricsText,
          sockets: options.sockets,
          ...(handOver === undefined ? {} : { handOver }),
          // Nothing is asked before the reloader exists.
          lastReload: () => reloader.last(),
        });
  if (fronts !== null) assembly.inject.set(fronts.inject);
  const reloader = createReloader({
    config,
    workers,
    setLogLevel: parts.setLogLevel,
    metrics,
    clock,
    log,
    prepareListeners: (next) => fronts?.prepareReload(next) ?? (() => undefined),
  });
  return {
    assembly,
    end,
    workers,
    health,
    lifecycle,
    reloader,
    fronts,
    work: createWork(assembly, parts, end.fail),
    drain: createDrain({ timeoutMs: () => core.lifecycle.drainTimeoutMs, clock, log }),
  };
}

/** The limit as it is when it is read. */
const readyLagOf = ({ follow }: CoreConfig) => ({
  get seconds() {
    return follow.maxReadyLagSeconds;
  },
  get slots() {
    return follow.maxReadyLagSlots;
  },
});

/** A thread that does not listen does not load the router, the validator and the other modules of a listener. */
const loadFronts = async () => (await import('./fronts.ts')).createFronts;

/** A process that only delivers is ready without an upstream. */
async function answersOf({ chains, roles }: Assembly, id: ChainId): Promise<boolean> {
  if (!roles.has('api') && !roles.has('indexer')) return true;
  return (await chains.find(({ setup }) => setup.id === id)?.pool.answers()) ?? true;
}

/** `parhelion_chain_info{kind="local"} 1` shows whether the data belongs to a public network. */
function exposeChainKinds({ chains, metrics }: Assembly): void {
  const info = metrics.scope('chain').gauge('info', 'kind of each chain that is served', ['chain', 'kind']);
  for (const { setup } of chains) info.with(setup.id, setup.kind).set(1);
}

/** `parhelion_build_info{version="0.1.0",commit="0123456789ab",node="20.19.0"} 1`: what runs here. */
function exposeBuild({ metrics, version }: Assembly, commit: string | null): void {
  const labels = ['version', 'commit', 'node'] as const;
  const info = metrics
    .scope('build')
    .gauge('info', 'version and commit of the program, and the version of Node', labels);
  info.with(version, commit ?? 'unknown', process.versions.node).set(1);
}

/** Keeps the first fatal error; later ones are consequences of it. */
function createEnd() {
  let fail: (error: unknown) => void = () => undefined;
  const failed = new Promise<unknown>((resolve) => {
    fail = resolve;
  });
  return { failed, fail: (error: unknown) => fail(error) };
}

interface DrainOptions {
  /** For all of it. */
  readonly timeoutMs: () => number;
  readonly clock: Clock;
  readonly log: Log;
}

/** One time limit for all parts that finish their running work. */
interface Drain {
  /** Aborts at the end of the time. */
  readonly deadline: AbortSignal;
  /** Waits for work to finish, until the deadline. Never rejects. */
  wait(works: readonly Promise<unknown>[]): Promise<void>;
  /** Cancels the time limit once everything is closed. */
  end(): void;
}

/** The time limit starts at the first wait. */
export function createDrain({ timeoutMs, clock, log }: DrainOptions): Drain {
  const controller = new AbortController();
  let cancel: (() => void) | null = null;
  return {
    deadline: controller.signal,
    async wait(works) {
      cancel ??= clock.timeout(timeoutMs(), () => controller.abort(new Error('the drain deadline has passed')));
      const late = new Promise<void>((resolve) => {
        if (controller.signal.aborted) resolve();
        controller.signal.addEventListener('abort', () => resolve(), { once: true });
      });
      const over = Promise.all(works).catch((error: unknown) => {
        log.error({ error: messageOf(error) }, 'drain failed');
      });
      await Promise.race([over, late]);
    },
    end: () => cancel?.(),
  };
}

export interface FirstStartOptions {
  /** Creates the first project and key if the store has none: with this key, or with a random one. */
  readonly firstProject: { readonly key?: string } | null;
  /** Creates the operator token if none exists; only for starts that display it. */
  readonly firstOperator?: boolean;
}

/** Created by a first start, else null. Both are shown only once. */
export interface FirstStart {
  readonly key: FirstKey | null;
  readonly operatorToken: string | null;
}

async function makeFirstThings(assembly: Assembly, options: FirstStartOptions): Promise<FirstStart> {
  const { firstProject, firstOperator = false } = options;
  const access = firstProject === null ? undefined : serviceOf(assembly.plugins, accessBootstrap);
  const dashboard = firstOperator ? serviceOf(assembly.plugins, operatorBootstrap) : undefined;
  return {
    key: (await access?.ensureFirstProject(firstProject ?? {})) ?? null,
    operatorToken: (await dashboard?.ensureOperatorToken()) ?? null,
  };
}

/** Whether the store accepts writes: a daemon on a full or read-only disk still answers reads, but must not receive traffic. */
export function createStoreCheck(probe: () => Promise<void>): HealthCheck {
  return {
    name: 'store',
    async run() {
      try {
        await probe();
        return { ok: true, detail: 'takes writes' };
      } catch (error) {
        const words = wordsOf(error);
        if (words === null) throw error;
        return { ok: false, detail: words };
      }
    },
  };
}

interface StorageOptions {
  readonly store: () => Store;
  /** `store.url` of the configuration. */
  readonly url: string;
  /** Folder of store and caches. */
  readonly dataDir: string;
  scope(area: string): Metrics;
  readonly clock: Clock;
  readonly log: Log;
}

/** Measures the size of the store and the free space of the data folder, once per interval, so that a scrape waits for nothing. */
interface Storage {
  /** Never rejects: what cannot be measured has no sample. */
  start(): Promise<void>;
  stop(): Promise<void>;
}

const INTERVAL_MS = 15_000;

function createStorage({ store, url, dataDir, scope, clock, log }: StorageOptions): Storage {
  const size = scope('store').gauge('size_bytes', 'size of the database and of its write-ahead log (SQLite)', ['part']);
  const disk = scope('disk');
  const free = disk.gauge('free_bytes', 'free space of the file system of dataDir', ['folder']);
  const whole = disk.gauge('size_bytes', 'size of the file system of dataDir', ['folder']);
  const file = sqliteFile(url, dataDir);
  let stop: (() => Promise<void>) | null = null;
  let isFailing = false;

  async function measureStore(): Promise<void> {
    if (file === null) {
      const query = sql<{ bytes: number }>`select pg_database_size(current_database()) as bytes`;
      const { rows } = await query.execute(store().read);
      size.with('database').set(Number(rows[0]?.bytes));
      return;
    }
    size.with('database').set(await sizeOf(file));
    size.with('wal').set(await sizeOf(`${file}-wal`));
  }

  async function measureDisk(): Promise<void> {
    const { bavail, blocks, bsize } = await statfs(dataDir);
    free.with('dataDir').set(bavail * bsize);
    whole.with('dataDir').set(blocks * bsize);
  }

  async function measure(): Promise<void> {
    const failed = (await Promise.allSettled([measureStore(), measureDisk()])).find(
      (result) => result.status === 'rejected',
    );
    if (failed !== undefined && !isFailing)
      log.warn({ code: codeOf(failed.reason), error: messageOf(failed.reason) }, 'store and disk cannot be measured');
    isFailing = failed !== undefined;
  }

  return {
    async start() {
      await measure();
      stop = startEvery(clock, INTERVAL_MS, measure, () => undefined);
    },
    async stop() {
      await stop?.();
    },
  };
}

/** A write-ahead log that is not there has no bytes. */
async function sizeOf(path: string): Promise<number> {
  try {
    return (await stat(path)).size;
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return 0;
    throw error;
  }
}
