import type { CoreConfig } from '../config/core.ts';
import { CodedError, messageOf } from '../lib/coded-error.ts';
import { isPlainObject } from '../lib/json.ts';
import type {
  Contribution,
  Gate,
  HostContext,
  HostPluginDefinition,
  RpcFallback,
  SocketHandler,
} from '../plugin/host.ts';
import type { BlockProcessor, Command, HealthCheck, JobKind, NewJob, Route, RpcMethod } from '../plugin/plugin.ts';
import { createRegistration, type Registration } from '../plugin/registration.ts';
import type { Bus, Hints } from '../ports/bus.ts';
import type { ChainId, ChainReader } from '../ports/chain.ts';
import type { Clock, Random } from '../ports/clock.ts';
import type { Roles } from '../ports/daemon-view.ts';
import type { Log } from '../ports/log.ts';
import type { Metrics } from '../ports/metrics.ts';
import type { Outbound } from '../ports/outbound.ts';
import type { ContributedParser } from '../ports/parsers.ts';
import type { ProvidedService, ServiceToken } from '../ports/service.ts';
import type { Store, StoreTx } from '../ports/store.ts';
import type { Tracer } from '../ports/tracing.ts';
import type { UpstreamConfig, UpstreamPool } from '../ports/upstream.ts';
import { EXIT } from '../runtime/errors.ts';

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
 * Provisions the plugins in the given order. Opens nothing. Errors: PLUGIN_INVALID if `provision` throws, PLUGIN_SERVICE if a plugin
 * requests a service that is not in its `uses`, or does not provide one of its `offers`.
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
    const contribution = await provisionOne(plugin, context, registration);
    for (const { token, service } of contribution.services ?? []) services.set(token.id, service);
    provisioned.push({ ...plugin, contribution, pools });
  }
  return provisioned;
}

async function provisionOne(
  { id, definition }: PluginToProvision,
  context: HostContext,
  registration: Registration,
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
  if (returned !== undefined && !isPlainObject(returned)) {
    throw new CodedError('PLUGIN_INVALID', `plugin ${id}: provision returned something other than a contribution`, {
      exitCode: EXIT.config,
    });
  }
  const contribution = registration.close(returned as Contribution | undefined);
  const offered = (definition.offers ?? []).map((token) => token.id);
  const provided = (contribution.services ?? []).map(({ token }) => token.id);
  const wrong = [
    ...offered.filter((one) => !provided.includes(one)),
    ...provided.filter((one) => !offered.includes(one)),
  ];
  if (wrong.length > 0) {
    throw new CodedError('PLUGIN_SERVICE', `plugin ${id}: offers and services differ in ${wrong.join(', ')}`, {
      exitCode: EXIT.config,
    });
  }
  return contribution;
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

/** The merged contributions of all plugins. */
export interface Merged {
  readonly routes: readonly Route[];
  readonly rpc: readonly RpcMethod[];
  readonly processors: readonly BlockProcessor[];
  /** The plugin of each processor, by processor name. */
  readonly processorOwners: ReadonlyMap<string, string>;
  readonly jobs: readonly JobKind[];
  readonly checks: readonly HealthCheck[];
  readonly commands: readonly Command[];
  readonly parsers: readonly ContributedParser[];
  readonly gate: Gate | null;
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
    processorOwners: new Map(
      plugins.flatMap(({ id, contribution }) => (contribution.processors ?? []).map(({ name }) => [name, id] as const)),
    ),
    jobs: all('jobs').flatMap((list) => list ?? []),
    checks: all('checks').flatMap((list) => list ?? []),
    commands: all('commands').flatMap((list) => list ?? []),
    parsers: all('parsers').flatMap((list) => list ?? []),
    gate: all('gate').find((gate) => gate !== undefined) ?? null,
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
    ...(contribution.gate === undefined ? [] : ['the gate']),
    ...(contribution.rpcFallback === undefined ? [] : ['the JSON-RPC fallback']),
    ...(contribution.sockets === undefined ? [] : ['the websockets']),
    ...(contribution.tracer === undefined ? [] : ['the tracer']),
  ];
}

function conflict(first: string, second: string, what: string): CodedError {
  const who = first === second ? `plugin ${first} contributes` : `plugins ${first} and ${second} both contribute`;
  return new CodedError('PLUGIN_CONFLICT', `${who} ${what}${first === second ? ' twice' : ''}`, {
    exitCode: EXIT.config,
    facts: { plugins: [first, second] },
  });
}
