import type { CoreConfig } from '../config/core.ts';
import type { LoadedConfig } from '../config/load.ts';
import { CodedError, EXIT, messageOf } from '../lib/coded-error.ts';
import { isPlainObject } from '../lib/json.ts';
import type {
  BlockListener,
  Contribution,
  Gate,
  HostContext,
  HostPluginDefinition,
  Paywall,
  RpcFallback,
  SocketHandler,
} from '../plugin/host.ts';
import type {
  BlockProcessor,
  Command,
  HealthCheck,
  JobKind,
  NewJob,
  PluginContext,
  Route,
  RpcMethod,
} from '../plugin/plugin.ts';
import type { ChainId, ChainReader } from '../ports/chain.ts';
import type { Clock, Random } from '../ports/clock.ts';
import type { Roles } from '../ports/daemon-view.ts';
import type { Outbound } from '../ports/outbound.ts';
import type { ContributedParser } from '../ports/parsers.ts';
import type { Bus, Hints } from '../ports/processes.ts';
import type { ProvidedService, ServiceToken } from '../ports/service.ts';
import type { Store, StoreTx } from '../ports/store.ts';
import type { Log, Metrics, Tracer } from '../ports/telemetry.ts';
import type { UpstreamConfig, UpstreamPool } from '../ports/upstream.ts';
import { startEvery } from '../runtime/waiting.ts';

/** Shared by all plugins. */
export interface PluginSurroundings {
  /** Secrets masked. */
  readonly core: CoreConfig;
  readonly version: string;
  readonly roles: Roles;
  readonly log: Log;
  metrics(area: string): Metrics;
  readonly clock: Clock;
  readonly random: Random;
  readonly store: Store;
  readonly outbound: Outbound;
  chain(id: ChainId): ChainReader | null;
  upstreams(id: ChainId): UpstreamPool | null;
  /** Creates a pool of a plugin, for a chain or for none. */
  openPool(label: string, upstreams: readonly UpstreamConfig[], metrics: Metrics, chain: ChainId | null): UpstreamPool;
  enqueue(tx: StoreTx, jobs: readonly NewJob[]): Promise<number>;
  readonly bus: Bus;
  /** Services of the kernel. */
  readonly services: readonly ProvidedService[];
}

export interface ProvisionedPlugin {
  readonly id: string;
  readonly definition: HostPluginDefinition;
  readonly section: unknown;
  readonly contribution: Contribution;
  /** Opened by the plugin, started and stopped with it. */
  readonly pools: readonly UpstreamPool[];
}

export interface PluginToProvision {
  readonly id: string;
  readonly definition: HostPluginDefinition;
  readonly section: unknown;
}

/**
 * Provisions the plugins in the given order. Opens nothing. Errors: PLUGIN_INVALID if `provision` throws or returns something, or if the
 * daemon cannot use a part; PLUGIN_SERVICE if a plugin requests a service that is not in its `uses`, or does not provide one of its `offers`.
 */
export async function provisionPlugins(
  plugins: readonly PluginToProvision[],
  surroundings: PluginSurroundings,
): Promise<ProvisionedPlugin[]> {
  const services = new Map<string, unknown>(surroundings.services.map(({ token, service }) => [token.id, service]));
  const provisioned: ProvisionedPlugin[] = [];
  for (const plugin of plugins) {
    const pools: UpstreamPool[] = [];
    const log = surroundings.log.child({ plugin: plugin.id });
    const registration = createRegistration(plugin.id, surroundings.clock, log);
    const context = createContext(plugin, surroundings, registration, services, pools);
    const isComplete = (plugin.definition.uses ?? []).every(({ id }) => services.has(id));
    const contribution = await provisionOne(plugin, context, { registration, isComplete });
    for (const { token, service } of contribution.services ?? []) services.set(token.id, service);
    provisioned.push({ ...plugin, contribution, pools });
  }
  return provisioned;
}

async function provisionOne(
  { id, definition }: PluginToProvision,
  context: HostContext,
  { registration, isComplete }: { readonly registration: Registration; readonly isComplete: boolean },
): Promise<Contribution> {
  let returned: unknown;
  try {
    returned = await definition.provision(context as never);
  } catch (error) {
    if (error instanceof CodedError) throw error;
    throw new CodedError('PLUGIN_INVALID', `plugin ${id} cannot be provisioned: ${messageOf(error)}`, {
      exitCode: EXIT.config,
      cause: error,
    });
  }
  if (returned !== undefined) {
    throw new CodedError('PLUGIN_INVALID', `plugin ${id}: provision returned ${whatIs(returned)}; ${HOW_TO_REGISTER}`, {
      exitCode: EXIT.config,
    });
  }
  const contribution = registration.close();
  checkContribution(id, contribution);
  const offered = (definition.offers ?? []).map((token) => token.id);
  const provided = (contribution.services ?? []).map(({ token }) => token.id);
  const wrong = [
    // Without a service that it uses, a plugin may offer less.
    ...offered.filter((one) => isComplete && !provided.includes(one)),
    ...provided.filter((one) => !offered.includes(one)),
  ];
  if (wrong.length > 0) {
    throw new CodedError('PLUGIN_SERVICE', `plugin ${id}: offers and services differ in ${wrong.join(', ')}`, {
      exitCode: EXIT.config,
    });
  }
  return contribution;
}

const HOW_TO_REGISTER =
  'a plugin returns nothing and registers its parts through the context, such as ctx.http.route and ctx.onStart';

/** What a plugin returned: the names of its members, or its type. */
function whatIs(returned: unknown): string {
  const names = isPlainObject(returned) ? Object.keys(returned) : [];
  if (names.length > 0) return names.map((name) => `"${name}"`).join(', ');
  return returned === null ? 'null' : `a value of the type ${typeof returned}`;
}

const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'];
const AUTHS = ['none', 'key', 'optional-key', 'admin'];
const SHAPES = ['plain', 'wallet', 'admin', 'text', 'rpc'];

/** A route or method that the daemon could not use is refused before anything depends on it. Errors: PLUGIN_INVALID. */
function checkContribution(id: string, contribution: Contribution): void {
  const refuse = (what: string): never => {
    throw new CodedError('PLUGIN_INVALID', `plugin ${id}: ${what}`, { exitCode: EXIT.config });
  };
  for (const [at, route] of (contribution.routes ?? []).entries()) {
    const problem = routeProblem(route);
    if (problem !== null) refuse(`the route ${partName(route, ['method', 'path'], at)} ${problem}`);
  }
  for (const [at, method] of (contribution.rpc ?? []).entries()) {
    const problem = methodProblem(method);
    if (problem !== null) refuse(`the JSON-RPC method ${partName(method, ['name'], at)} ${problem}`);
  }
}

function partName(part: unknown, members: readonly string[], at: number): string {
  const words = isPlainObject(part) ? members.map((name) => part[name]).filter((word) => typeof word === 'string') : [];
  return words.length === members.length ? words.join(' ') : `number ${at + 1}`;
}

const oneOf = (values: readonly string[]) => `must be one of ${values.join(', ')}`;
const isText = (value: unknown) => typeof value === 'string' && value !== '';
const isTag = (value: unknown) =>
  isText(value) || (isPlainObject(value) && isText(value['name']) && isText(value['description']));
/** TypeBox marks its schemas with symbols, so a plain object is not enough of a check and not demanded. */
const isSchema = (value: unknown) => typeof value === 'object' && value !== null && !Array.isArray(value);

/** What is wrong with a definition, as the end of a sentence. Definitions in JavaScript are not checked by a compiler. */
function routeProblem(route: unknown): string | null {
  if (!isPlainObject(route)) return 'is not an object';
  const { method, path, summary, tag, auth, errors, replies, handler } = route;
  if (!METHODS.includes(method as string)) return `has a wrong method: it ${oneOf(METHODS)}`;
  if (!isText(path) || !(path as string).startsWith('/')) return 'has a wrong path: it must begin with /';
  if (!isText(summary)) return 'has no summary';
  if (!isTag(tag)) return 'has no tag: it must be a name, or a name and a description';
  if (!AUTHS.includes(auth as string)) return `has a wrong auth: it ${oneOf(AUTHS)}`;
  if (!SHAPES.includes(errors as string)) return `has wrong errors: it ${oneOf(SHAPES)}`;
  if (typeof handler !== 'function') return 'has no handler';
  if (!isSchema(replies) || Object.keys(replies as object).length === 0)
    return 'has no replies: it needs a schema per status';
  for (const [status, schema] of Object.entries(replies as object))
    if (!/^[1-5]\d\d$/.test(status) || !isSchema(schema))
      return `has a wrong reply "${status}": it must be a schema by status`;
  for (const name of ['params', 'query', 'body'] as const)
    if (route[name] !== undefined && !isSchema(route[name])) return `has a wrong ${name}: it must be a schema`;
  for (const name of ['params', 'query'] as const)
    if (isSchema(route[name]) && !isSchema((route[name] as { properties?: unknown }).properties))
      return `has a wrong ${name}: it must be the schema of an object`;
  return null;
}

function methodProblem(method: unknown): string | null {
  if (!isPlainObject(method)) return 'is not an object';
  const { name, summary, tag, auth, price, params, result, handler } = method;
  if (!isText(name)) return 'has no name';
  if (!isText(summary)) return 'has no summary';
  if (!isTag(tag)) return 'has no tag: it must be a name, or a name and a description';
  if (auth !== 'none' && auth !== 'key') return `has a wrong auth: it ${oneOf(['none', 'key'])}`;
  if (!isSchema(price)) return 'has no price';
  if (!isSchema(params)) return 'has no params: it needs their schema';
  if (!isSchema(result)) return 'has no result: it needs its schema';
  return typeof handler === 'function' ? null : 'has no handler';
}

/** Runs the checks of the configuration that need files. Errors: those of the plugins, with the place of the key; exit 78. */
export async function checkPluginConfig({
  plugins,
  config,
}: {
  readonly plugins: readonly ProvisionedPlugin[];
  readonly config: LoadedConfig;
}): Promise<void> {
  for (const { contribution } of plugins) {
    try {
      await contribution.checkConfig?.();
    } catch (error) {
      const path = error instanceof CodedError ? error.facts['path'] : undefined;
      if (!(error instanceof CodedError) || typeof path !== 'string') throw error;
      const { exitCode, facts } = error;
      throw new CodedError(error.code, `${config.placeOf(path.split('.'))}: ${error.message}`, {
        ...(exitCode === undefined ? {} : { exitCode }),
        facts,
        cause: error,
      });
    }
  }
}

function createContext(
  { id, definition, section }: PluginToProvision,
  shared: PluginSurroundings,
  registration: Registration,
  services: ReadonlyMap<string, unknown>,
  pools: UpstreamPool[],
): HostContext {
  const metrics = shared.metrics(id);
  const used = new Set((definition.uses ?? []).map((token) => token.id));
  return {
    id,
    config: section,
    core: shared.core,
    version: shared.version,
    roles: shared.roles,
    log: shared.log.child({ plugin: id }),
    metrics,
    clock: shared.clock,
    random: shared.random,
    store: shared.store,
    outbound: shared.outbound,
    chain: shared.chain,
    upstreams: shared.upstreams,
    openPool(label, upstreams, chain = 'main') {
      const pool = shared.openPool(label, upstreams, metrics, chain);
      pools.push(pool);
      return pool;
    },
    use<T>(token: ServiceToken<T>): T | undefined {
      if (!used.has(token.id)) {
        throw new CodedError('PLUGIN_SERVICE', `plugin ${id} asked for ${token.id}, which is not in its \`uses\``, {
          exitCode: EXIT.config,
        });
      }
      return services.get(token.id) as T | undefined;
    },
    ...registration.methods,
    jobs: { ...registration.methods.jobs, add: shared.enqueue },
    hints: hintsOf(shared.bus, id),
  };
}

function hintsOf(bus: Bus, id: string): Hints {
  const own = (topic: string): string => `plugin.${id}.${topic}`;
  return {
    publish: (topic, message) => bus.publish(own(topic), message),
    subscribe: (topic, listener) => bus.subscribe(own(topic), listener),
  };
}

/** Parts that at most one plugin registers, with their names in errors. */
const SINGLE_PARTS = {
  gate: 'the gate',
  paywall: 'the payments of calls',
  rpcFallback: 'the JSON-RPC fallback',
  sockets: 'the websockets',
  tracer: 'the tracer',
} as const;

type SinglePart = keyof typeof SINGLE_PARTS;

/** The registering methods of a plugin's context, and the collected result. */
export interface Registration {
  readonly methods: Pick<
    HostContext,
    | ('http' | 'rpc' | 'blocks' | 'check' | 'checkConfig' | 'command' | 'parser' | 'host')
    | ('every' | 'onStart' | 'onDrain' | 'onStop' | 'provide' | 'listen')
  > & { readonly jobs: Pick<PluginContext['jobs'], 'define'> };
  /** Call once, after `provision` returned. */
  close(): Contribution;
}

export function createRegistration(id: string, clock: Clock, log: Log): Registration {
  const routes: Route[] = [];
  const rpc: RpcMethod[] = [];
  const processors: BlockProcessor[] = [];
  const listeners: BlockListener[] = [];
  const jobs: JobKind[] = [];
  const checks: HealthCheck[] = [];
  const commands: Command[] = [];
  const parsers: ContributedParser[] = [];
  const services: ProvidedService[] = [];
  const single: { -readonly [K in SinglePart]?: Contribution[K] } = {};
  const starts: ((signal: AbortSignal) => unknown)[] = [];
  const drains: (() => unknown)[] = [];
  const stops: ((signal: AbortSignal) => unknown)[] = [];
  const configChecks: (() => void | Promise<void>)[] = [];
  let isClosed = false;

  function demandOpen(what: string): void {
    if (!isClosed) return;
    throw new CodedError('PLUGIN_INVALID', `plugin ${id} called ${what} after provision had returned`, {
      exitCode: EXIT.config,
    });
  }

  function push<T>(list: T[], item: T, what: string): void {
    demandOpen(what);
    list.push(item);
  }

  function set<K extends SinglePart>(key: K, part: NonNullable<Contribution[K]>): void {
    demandOpen(`host.${key}`);
    if (single[key] !== undefined) throw conflict(id, id, SINGLE_PARTS[key]);
    single[key] = part;
  }

  return {
    methods: {
      http: { route: (route) => push(routes, route as unknown as Route, 'http.route') },
      rpc: {
        method(method) {
          for (const one of underAllNames(method as unknown as RpcMethod)) push(rpc, one, 'rpc.method');
        },
      },
      blocks: { on: (processor) => push(processors, processor, 'blocks.on') },
      jobs: { define: (kind) => push(jobs, kind, 'jobs.define') },
      check: (name, run, options = {}) => push(checks, { ...options, name, run }, 'check'),
      command: (command) => push(commands, command, 'command'),
      parser: (parser) => push(parsers, parser, 'parser'),
      host: {
        gate: (gate) => set('gate', gate),
        paywall: (paywall) => set('paywall', paywall),
        rpcFallback: (fallback) => set('rpcFallback', fallback),
        sockets: (sockets) => set('sockets', sockets),
        tracer: (tracer) => set('tracer', tracer),
      },
      listen: (listener) => push(listeners, listener, 'listen'),
      checkConfig: (run) => push(configChecks, run, 'checkConfig'),
      every(intervalMs, work) {
        let end: (() => Promise<void>) | null = null;
        const onError = (error: unknown) =>
          log.error({ error: messageOf(error) }, 'the periodic work of a plugin failed');
        const begin = () => {
          end = startEvery(clock, intervalMs, work, onError);
        };
        push(starts, begin, 'every');
        push(stops, () => end?.(), 'every');
      },
      onStart: (run) => push(starts, run, 'onStart'),
      onDrain: (run) => push(drains, run, 'onDrain'),
      onStop: (run) => push(stops, run, 'onStop'),
      provide: (token, service) => push(services, { token, service }, 'provide'),
    },
    close() {
      isClosed = true;
      return {
        ...single,
        routes,
        rpc,
        processors,
        listeners,
        jobs,
        checks,
        commands,
        parsers,
        services,
        async checkConfig() {
          for (const run of configChecks) await run();
        },
        async start(signal) {
          for (const run of starts) await run(signal);
        },
        async drain() {
          await Promise.all(drains.map((run) => run()));
        },
        async stop(signal) {
          const errors: unknown[] = [];
          for (const run of stops.toReversed()) {
            try {
              await run(signal);
            } catch (error) {
              errors.push(error);
            }
          }
          if (errors.length > 0) throw errors[0];
        },
      };
    },
  };
}

/** The merged contributions of all plugins. */
export interface Merged {
  readonly routes: readonly Route[];
  readonly rpc: readonly RpcMethod[];
  readonly processors: readonly BlockProcessor[];
  readonly listeners: readonly BlockListener[];
  /** The plugin of each processor, by processor name. */
  readonly processorOwners: ReadonlyMap<string, string>;
  readonly jobs: readonly JobKind[];
  readonly checks: readonly HealthCheck[];
  readonly commands: readonly Command[];
  readonly parsers: readonly ContributedParser[];
  readonly gate: Gate | null;
  readonly paywall: Paywall | null;
  readonly rpcFallback: RpcFallback | null;
  readonly sockets: SocketHandler | null;
  readonly tracer: Tracer | null;
}

interface Contributor {
  readonly id: string;
  readonly contribution: Contribution;
}

/** Errors: PLUGIN_CONFLICT with both plugins, PLUGIN_INVALID with a job kind that does not start with the id of its plugin. */
export function mergeContributions(plugins: readonly Contributor[]): Merged {
  const owners = new Map<string, string>();
  const claim = (plugin: string, what: string) => {
    const other = owners.get(what);
    if (other !== undefined) throw conflict(other, plugin, what);
    owners.set(what, plugin);
  };
  for (const { id, contribution } of plugins) {
    for (const what of claims(contribution)) claim(id, what);
    const foreign = contribution.jobs?.find(({ kind }) => !kind.startsWith(`${id}.`));
    if (foreign !== undefined) {
      throw new CodedError('PLUGIN_INVALID', `plugin ${id}: job kind ${foreign.kind} must start with "${id}."`, {
        exitCode: EXIT.config,
      });
    }
  }
  const all = <K extends keyof Contribution>(key: K) => plugins.map(({ contribution }) => contribution[key]);
  return {
    routes: all('routes').flatMap((list) => list ?? []),
    rpc: all('rpc').flatMap((list) => list ?? []),
    processors: all('processors').flatMap((list) => list ?? []),
    listeners: all('listeners').flatMap((list) => list ?? []),
    processorOwners: new Map(
      plugins.flatMap(({ id, contribution }) => (contribution.processors ?? []).map(({ name }) => [name, id] as const)),
    ),
    jobs: all('jobs').flatMap((list) => list ?? []),
    checks: all('checks').flatMap((list) => list ?? []),
    commands: all('commands').flatMap((list) => list ?? []),
    parsers: all('parsers').flatMap((list) => list ?? []),
    gate: all('gate').find((gate) => gate !== undefined) ?? null,
    paywall: all('paywall').find((paywall) => paywall !== undefined) ?? null,
    rpcFallback: all('rpcFallback').find((fallback) => fallback !== undefined) ?? null,
    sockets: all('sockets').find((sockets) => sockets !== undefined) ?? null,
    tracer: all('tracer').find((tracer) => tracer !== undefined) ?? null,
  };
}

/** All parts of a contribution that only one plugin may have, as texts for the error. */
function claims(contribution: Contribution): string[] {
  return [
    ...(contribution.routes ?? []).map(
      ({ method, path, auth }) =>
        `the ${auth === 'admin' ? 'admin ' : ''}route ${method} ${path.replaceAll(/:[^/]+/g, ':')}`,
    ),
    ...(contribution.rpc ?? []).map(({ name }) => `the JSON-RPC method ${name}`),
    ...(contribution.processors ?? []).map(({ name }) => `the block processor ${name}`),
    ...(contribution.jobs ?? []).map(({ kind }) => `the job kind ${kind}`),
    ...(contribution.checks ?? []).map(({ name }) => `the health check ${name}`),
    ...(contribution.commands ?? []).map(({ path }) => `the command ${path.join(' ')}`),
    ...(contribution.parsers ?? []).map(({ name }) => `the transaction parser ${name}`),
    ...(Object.keys(SINGLE_PARTS) as SinglePart[])
      .filter((part) => contribution[part] !== undefined)
      .map((part) => SINGLE_PARTS[part]),
  ];
}

function conflict(first: string, second: string, what: string): CodedError {
  const who = first === second ? `plugin ${first} contributes` : `plugins ${first} and ${second} both contribute`;
  return new CodedError('PLUGIN_CONFLICT', `${who} ${what}${first === second ? ' twice' : ''}`, {
    exitCode: EXIT.config,
    facts: { plugins: [first, second] },
  });
}

/** The method, and one for each of its other names. Its getters stay getters: a reload changes what they return. */
function underAllNames(method: RpcMethod): readonly RpcMethod[] {
  const { name, aliases = [] } = method;
  const { aliases: _, ...members } = Object.getOwnPropertyDescriptors(method);
  const fixed = (value: string) => ({ value, enumerable: true });
  return [
    method,
    ...aliases.map(
      (alias) => Object.create(null, { ...members, name: fixed(alias), aliasOf: fixed(name) }) as RpcMethod,
    ),
  ];
}
