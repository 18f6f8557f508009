import { answerRoom, type BudgetLedger, createBudgets, type Rooms } from '../budgets.ts';
import { createGapRecords } from '../chain/gaps.ts';
import { apiProcesses, type CoreConfig, coreConfig } from '../config/core.ts';
import type { LoadedConfig } from '../config/load.ts';
import { maskedView, maskSecrets } from '../config/mask.ts';
import { fillDefaults, type SchemaNode } from '../config/node.ts';
import { createOutbox } from '../jobs/outbox.ts';
import { createJoinedHistory, createPastReader } from '../joined-history/index.ts';
import { CodedError } from '../lib/coded-error.ts';
import { isPlainObject } from '../lib/json.ts';
import { kernelTenants, storedBudgets } from '../ports/access.ts';
import type { TapSeat } from '../ports/answer-tap.ts';
import type { BlockHeader } from '../ports/block.ts';
import type { ChainId, ChainReader, ChainSource, ChainStatus } from '../ports/chain.ts';
import type { Clock } from '../ports/clock.ts';
import {
  type DaemonView,
  type Inject,
  kernelView,
  type PluginView,
  type Priced,
  type ReadinessView,
  type RequestListener,
  ROLES,
  type Roles,
  type Setting,
} from '../ports/daemon-view.ts';
import { kernelFollowing, kernelGaps } from '../ports/following.ts';
import {
  type ArchiveEngine,
  type ArchiveReader,
  archiveReaders,
  kernelArchiveEngine,
  kernelJoinedHistory,
  kernelLedger,
  kernelLedgerHolds,
  kernelPast,
  type LedgerReader,
} from '../ports/ledger.ts';
import { kernelOutbox, type Outbox } from '../ports/outbox.ts';
import { kernelParsers, type PluginParsers } from '../ports/parsers.ts';
import { kernelApiPeers, kernelOwner, kernelThreadLine, type Owner } from '../ports/processes.ts';
import type { ServiceToken } from '../ports/service.ts';
import type { Store } from '../ports/store.ts';
import { configuredNow, type UpstreamPool } from '../ports/upstream.ts';
import { createMetricsRegistry, type MetricsRegistry, type StockMetrics } from '../runtime/metrics.ts';
import type { ChainSetup, DaemonParts, FollowerView, OutboxParts } from './parts.ts';
import { type Merged, mergeContributions, type ProvisionedPlugin, provisionPlugins } from './provision.ts';
import { type FoundPlugin, runsIn } from './registry.ts';
import { createFollowing } from './remote.ts';
import { type TracerSlot, traceContributions, traceOutbound, tracePool } from './tracing.ts';

export interface AssembledChain {
  readonly setup: ChainSetup;
  readonly pool: UpstreamPool;
  /** Pools of plugins for this chain; they are bound to the same genesis hash. */
  readonly alongside: UpstreamPool[];
  readonly source: ChainSource;
  readonly reader: ChainReader;
  /** Set when the follower is made. */
  readonly follower: Late<FollowerView>;
}

/** A daemon with provisioned plugins in which nothing is open yet. */
export interface Assembly {
  readonly config: LoadedConfig<FoundPlugin>;
  readonly version: string;
  /** Roles of this thread. */
  readonly roles: Roles;
  readonly metrics: MetricsRegistry;
  readonly chains: readonly AssembledChain[];
  readonly plugins: readonly ProvisionedPlugin[];
  readonly merged: Merged;
  /** Budgets of the callers of this thread. */
  readonly budgets: BudgetLedger;
  /** Listeners of plugins for answered requests. */
  readonly requests: AnsweredRequests;
  /** The tap of a plugin, if one has set it. */
  readonly taps: TapSeat;
  /** Set when the daemon is made. */
  readonly readiness: Late<DaemonView['readiness']>;
  readonly store: Late<Store>;
  readonly outbox: Late<OutboxParts>;
  readonly owner: Late<Owner | null>;
  /** The ledgers of this thread, once they are open. */
  readonly ledgers: Map<ChainId, LedgerReader>;
  /** The engines of `ledger.archive`, once the work is made. */
  readonly archiveEngines: Map<ChainId, ArchiveEngine>;
  /** The slots above which plugins still need the ledger, by chain. */
  readonly ledgerHolds: Map<ChainId, (() => number)[]>;
  /** Plugins that want the ledger that this thread writes, by chain. */
  readonly ledgerOpened: Map<ChainId, ((ledger: LedgerReader) => void)[]>;
  /** Set when the listeners are made. */
  readonly inject: Late<Inject>;
}

export interface AssembleOptions {
  /** Roles of this thread; default all. Plugins are provisioned in any case. */
  readonly roles?: Roles;
  /** Metrics of process and runtime among those of this thread; default `process`. */
  readonly stockMetrics?: StockMetrics;
  readonly config: LoadedConfig<FoundPlugin>;
  readonly parts: DaemonParts;
  readonly chains: readonly ChainSetup[];
  readonly version: string;
}

/**
 * Creates pools, readers and plugins, and merges the contributions. Opens no socket, file or database, so it also serves to check a
 * configuration. Errors: those of `provisionPlugins` and `mergeContributions`.
 */
export async function assemble(options: AssembleOptions): Promise<Assembly> {
  const { config, version } = options;
  const tracing: TracerSlot = { tracer: null };
  const parts = traceParts(options.parts, tracing);
  const roles = options.roles ?? new Set(ROLES);
  const metrics = createMetricsRegistry({ stock: options.stockMetrics ?? 'process' });
  const store = createLate<Store>('the store');
  const outbox = createLate<OutboxParts>('the outbox');
  const owner = createLate<Owner | null>('the owner of the data folder');
  const inject = createLate<Inject>('the listeners');
  const ledgers = new Map<ChainId, LedgerReader>();
  const archiveEngines = new Map<ChainId, ArchiveEngine>();
  const ledgerHolds: Assembly['ledgerHolds'] = new Map();
  const ledgerOpened: Assembly['ledgerOpened'] = new Map();
  let archiveOf: Archives = () => null;
  const pastOf = (chain: ChainId) =>
    config.core.ledger.retain.hours === 0
      ? null
      : createPastReader({ ledger: () => ledgers.get(chain) ?? null, archive: () => archiveOf(chain) });
  const joinedOf = oncePer((chain: ChainId) => {
    const reader = readerOf(chain);
    const past = createPastReader({
      ledger: () => ledgers.get(chain) ?? null,
      archive: () => archiveOf(chain),
    });
    return reader === null ? null : createJoinedHistory({ past, chain: reader, clock: parts.clock });
  });
  const budgets = createBudgets(
    roomsOf(config.core),
    servesTenants(roles) ? metrics.scope('budget') : null,
    parts.peers === null ? null : { ...parts.peers, clock: parts.clock },
  );
  const lateStore = createLateStore(store);
  const chains = options.chains
    .filter(({ upstreams }) => configuredNow(upstreams).length > 0)
    .map((setup) => assembleChain(setup, parts, metrics));
  const chainOf = (id: ChainId) => chains.find(({ setup }) => setup.id === id);
  const readerOf = (id: ChainId) => chainOf(id)?.reader ?? null;
  let merged: Merged | null = null;
  const pluginParsers: PluginParsers = { options: config.core.parsers, all: () => merged?.parsers ?? [] };
  let plugins: readonly ProvisionedPlugin[] = [];
  const readiness = createLate<DaemonView['readiness']>('the readiness');
  const requests: AnsweredRequests = new Set();
  const taps: TapSeat = { tap: null };
  const late = { plugins: () => plugins, inject: inject.get, readiness: () => readiness.get()() };
  const view = createDaemonView({ version, config, budgets, metrics, requests, taps, ...late });
  plugins = await provisionPlugins(
    config.plugins
      .filter((plugin) => plugin.enabled && runsIn(plugin, roles))
      .map(({ id, definition }) => ({ id, definition, section: config.values[id] })),
    {
      core: maskedView(coreConfig, config.core) as CoreConfig,
      version,
      roles,
      log: parts.log,
      metrics: metrics.scope,
      clock: parts.clock,
      random: parts.random,
      store: lateStore,
      outbound: parts.outbound,
      chain: readerOf,
      upstreams: (id) => chainOf(id)?.pool ?? null,
      openPool(label, upstreams, scope, chain) {
        const pool = parts.makePool(label, upstreams, scope);
        if (chain !== null) chainOf(chain)?.alongside.push(pool);
        return pool;
      },
      enqueue: (tx, jobs) => outbox.get().enqueue(tx, jobs),
      bus: parts.bus,
      services: [
        { token: kernelParsers, service: pluginParsers },
        { token: kernelView, service: view },
        { token: storedBudgets, service: budgets.stored },
        { token: kernelTenants, service: budgets },
        { token: kernelOutbox, service: lateOutbox(lateStore, parts.clock, outbox) },
        { token: kernelGaps, service: createGapRecords(lateStore, parts.clock) },
        { token: kernelThreadLine, service: parts.openThreadLine },
        { token: kernelApiPeers, service: { peers: parts.peers } },
        { token: kernelOwner, service: owner.get },
        { token: kernelLedger, service: (chain: ChainId) => ledgers.get(chain) ?? null },
        {
          token: kernelLedgerHolds,
          service: {
            hold: (chain: ChainId, slot: () => number) =>
              void ledgerHolds.set(chain, [...(ledgerHolds.get(chain) ?? []), slot]),
            opened: (chain: ChainId, run: (ledger: LedgerReader) => void) =>
              void ledgerOpened.set(chain, [...(ledgerOpened.get(chain) ?? []), run]),
          },
        },
        { token: kernelArchiveEngine, service: (chain: ChainId) => archiveEngines.get(chain) ?? null },
        { token: kernelPast, service: pastOf },
        { token: kernelJoinedHistory, service: joinedOf },
        {
          token: kernelFollowing,
          service: createFollowing({ store: lateStore, follow: config.core.follow, chain: readerOf }),
        },
      ],
    },
  );
  archiveOf = serviceOf(plugins, archiveReaders) ?? archiveOf;
  merged = traceContributions(mergeContributions(plugins));
  const { tracer } = merged;
  tracing.tracer = tracer;
  if (tracer !== null) parts.setLogContext(tracer.current);
  return {
    config,
    version,
    roles,
    metrics,
    chains,
    plugins,
    merged,
    budgets,
    requests,
    taps,
    readiness,
    store,
    outbox,
    owner,
    inject,
    ledgers,
    archiveEngines,
    ledgerHolds,
    ledgerOpened,
  };
}

/** A service that one of these plugins offers. */
export function serviceOf<T>(plugins: readonly ProvisionedPlugin[], token: ServiceToken<T>): T | undefined {
  const services = plugins.flatMap(({ contribution }) => contribution.services ?? []);
  return services.find((one) => one.token.id === token.id)?.service as T | undefined;
}

type Archives = (chain: ChainId) => ArchiveReader | null;

/** One value per chain, made when it is asked for first. */
function oncePer<T>(make: (chain: ChainId) => T): (chain: ChainId) => T {
  const made = new Map<ChainId, T>();
  return (chain) => {
    if (!made.has(chain)) made.set(chain, make(chain));
    return made.get(chain) as T;
  };
}

/** The API answers requests, the indexer streams. */
const servesTenants = (roles: Roles) => roles.has('api') || roles.has('indexer');

/** The shared limits. Calls to upstreams are not among them: they wait in the queue of their upstream. */
function roomsOf(core: CoreConfig): Rooms {
  const { answerBytes, ...others } = core.budgets;
  // Memory is of all processes of the API together; the others are counted in the main process alone.
  const share = (bytes: number) => Math.floor(bytes / apiProcesses(core));
  return {
    requestBytes: share(core.http.maxBodyBytesInFlight),
    answerBytes: share(answerBytes ?? answerRoom()),
    ...others,
  };
}

/** Upstream pools and outbound clients, traced if a plugin provides a tracer. */
function traceParts(parts: DaemonParts, slot: TracerSlot): DaemonParts {
  return {
    ...parts,
    outbound: traceOutbound(parts.outbound, slot),
    makePool: (label, upstreams, metrics) => tracePool(parts.makePool(label, upstreams, metrics), slot),
  };
}

function assembleChain(setup: ChainSetup, parts: DaemonParts, metrics: MetricsRegistry): AssembledChain {
  const area = setup.id === 'main' ? 'upstream' : `upstream_${setup.id}`;
  const follower = createLate<FollowerView>('the follower');
  const made = parts.makePool(setup.id, setup.upstreams, metrics.scope(area));
  const alongside: UpstreamPool[] = [];
  const pool: UpstreamPool = {
    ...made,
    bind(genesisHash) {
      made.bind(genesisHash);
      for (const other of alongside) {
        other.bind(genesisHash, true);
        void other.identify();
      }
    },
  };
  return { setup, pool, alongside, ...parts.makeChain(setup, pool, lateFollower(follower)), follower };
}

/** For commands without a job runner: the changed rows are picked up by the next start. */
function lateOutbox(store: Store, clock: Clock, runner: Late<OutboxParts>): Outbox {
  return createOutbox({ store, clock, wake: () => (runner.isSet() ? runner.get().wake() : undefined) });
}

/** Readers exist before followers: early listeners are handed over once the follower exists. */
function lateFollower(follower: Late<FollowerView>): FollowerView {
  const view = () => (follower.isSet() ? follower.get() : null);
  return {
    status: (): Partial<ChainStatus> => view()?.status() ?? {},
    onReleased(listener: (header: BlockHeader) => void) {
      let stop: (() => void) | null = null;
      const cancel = follower.whenSet((made) => {
        stop = made.onReleased(listener);
      });
      return () => {
        cancel();
        stop?.();
      };
    },
  };
}

/** A value that exists only after provisioning, such as the store. It is set once. */
export interface Late<T> {
  /** Errors: PLUGIN_TOO_EARLY. */
  get(): T;
  isSet(): boolean;
  set(value: T): void;
  /** Calls `fn` once the value is set, or at once if it is. The returned function cancels. */
  whenSet(fn: (value: T) => void): () => void;
}

export function createLate<T>(name: string): Late<T> {
  const waiting = new Set<(value: T) => void>();
  let held: { readonly value: T } | null = null;
  return {
    get() {
      if (held === null) {
        throw new CodedError(
          'PLUGIN_TOO_EARLY',
          `${name} is available from start on, not while plugins are provisioned`,
        );
      }
      return held.value;
    },
    isSet: () => held !== null,
    set(value) {
      held = { value };
      for (const fn of waiting) fn(value);
      waiting.clear();
    },
    whenSet(fn) {
      if (held === null) waiting.add(fn);
      else fn(held.value);
      return () => void waiting.delete(fn);
    },
  };
}

/** A store that plugins can reference before it is open. */
export function createLateStore(store: Late<Store>): Store {
  return {
    get dialect() {
      return store.get().dialect;
    },
    get read() {
      return store.get().read;
    },
    version: () => store.get().version(),
    write: (work) => store.get().write(work),
    probe: () => store.get().probe(),
    close: () => Promise.reject(new CodedError('PLUGIN_SERVICE', 'only the kernel may close the store')),
  };
}

interface DaemonViewParts {
  readonly version: string;
  readonly config: LoadedConfig;
  /** Set once all plugins are provisioned. */
  plugins(): readonly ProvisionedPlugin[];
  /** Throws until the listeners exist. */
  inject(): Inject;
  readonly budgets: BudgetLedger;
  readonly metrics: Pick<MetricsRegistry, 'families'>;
  readonly requests: AnsweredRequests;
  readonly taps: TapSeat;
  readiness(): Promise<ReadinessView>;
}

/** Listeners for answered requests; without any, nothing is collected. */
type AnsweredRequests = Set<RequestListener>;

/** The state of the daemon for the dashboard. */
function createDaemonView(parts: DaemonViewParts): DaemonView {
  const { version, config, plugins, inject, budgets, metrics, requests, taps, readiness } = parts;
  return {
    version,
    isSecure: config.core.admin.tls.certFile !== null,
    plugins: () => plugins().map(viewOf),
    config: () => maskSecrets(config.schema, config.values),
    settings: () => settingsOf(config),
    async readiness() {
      const { ready, draining, checks } = await readiness();
      return { ready, draining, checks };
    },
    async metrics() {
      const families = await metrics.families();
      return families.flatMap(({ name, values }) =>
        values.map(({ metricName = name, labels, value }) => ({ name: metricName, labels, value })),
      );
    },
    onRequest(listener) {
      requests.add(listener);
      return () => void requests.delete(listener);
    },
    tapAnswers(tap) {
      if (taps.tap !== null) throw new Error('only one plugin taps the answers');
      taps.tap = tap;
      return () => {
        taps.tap = null;
      };
    },
    priceOf: (name) => priceOf(plugins(), name),
    budgets: budgets.useOf,
    heldBudgets: budgets.held,
    call: (call) => inject()(call),
  };
}

/** The price of a JSON-RPC method, or of a route by its HTTP method and pattern. */
function priceOf(plugins: readonly ProvisionedPlugin[], name: string): Priced | undefined {
  const isRoute = name.includes(' ');
  for (const { contribution } of plugins) {
    const own = isRoute
      ? contribution.routes?.find(({ method, path }) => `${method} ${path}` === name)
      : contribution.rpc?.find((method) => method.name === name);
    if (own !== undefined) return own.price;
  }
  const fallback = plugins.find(({ contribution }) => contribution.rpcFallback !== undefined);
  return isRoute ? undefined : fallback?.contribution.rpcFallback?.price(name, () => undefined);
}

function viewOf({ id, definition, contribution }: ProvisionedPlugin): PluginView {
  const { routes = [], rpc = [], processors = [], jobs = [] } = contribution;
  return {
    id,
    summary: definition.summary,
    routes: routes.map(({ method, path }) => `${method} ${path}`),
    rpcMethods: rpc.map(({ name }) => name),
    processors: processors.map(({ name }) => name),
    jobs: jobs.map(({ kind }) => kind),
  };
}

function settingsOf({ schema, values }: LoadedConfig): readonly Setting[] {
  const found: Setting[] = [];
  const visit = (node: SchemaNode, value: unknown, initial: unknown, path: readonly string[]): void => {
    if (node.renamedTo !== undefined) return;
    if (node.type === 'object' && node.properties !== undefined) {
      for (const [key, field] of Object.entries(node.properties))
        visit(field, memberOf(value, key), memberOf(initial, key), [...path, key]);
      return;
    }
    found.push({
      key: path.join('.'),
      value: maskSecrets(node, value) ?? null,
      default: maskSecrets(node, initial) ?? null,
      isChanged: JSON.stringify(value) !== JSON.stringify(initial),
      description: node.description ?? '',
    });
  };
  visit(schema, values, fillDefaults(schema, {}), []);
  return found;
}

const memberOf = (value: unknown, key: string): unknown => (isPlainObject(value) ? value[key] : undefined);
