import type { CoreConfig } from '../../config/core.ts';
import { CodedError, messageOf } from '../../lib/coded-error.ts';
import { isPlainObject } from '../../lib/json.ts';
import type { Contribution, HostContext, HostPluginDefinition } from '../../plugin/host.ts';
import type { NewJob } from '../../plugin/plugin.ts';
import { createRegistration, type Registration } from '../../plugin/registration.ts';
import type { Bus, Hints } from '../../ports/bus.ts';
import type { ChainId, ChainReader } from '../../ports/chain.ts';
import type { Clock, Random } from '../../ports/clock.ts';
import type { Roles } from '../../ports/daemon-view.ts';
import type { Log } from '../../ports/log.ts';
import type { Metrics } from '../../ports/metrics.ts';
import type { Outbound } from '../../ports/outbound.ts';
import type { ProvidedService, ServiceToken } from '../../ports/service.ts';
import type { Store, StoreTx } from '../../ports/store.ts';
import type { UpstreamConfig, UpstreamPool } from '../../ports/upstream.ts';
import { EXIT } from '../../runtime/errors.ts';

/** What all plugins share. */
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
  /** Of a plugin, for a chain or for none. */
  openPool(label: string, upstreams: readonly UpstreamConfig[], metrics: Metrics, chain: ChainId | null): UpstreamPool;
  enqueue(tx: StoreTx, jobs: readonly NewJob[]): Promise<number>;
  readonly bus: Bus;
  /** Offered by the kernel itself. */
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
 * Asks every plugin, in the given order, what it contributes. Nothing is opened. Errors: PLUGIN_INVALID when `provision` throws,
 * PLUGIN_SERVICE when a plugin asks for a service it did not name, or does not provide what it offers.
 */
export async function provisionPlugins(
  plugins: readonly PluginToProvision[],
  surroundings: PluginSurroundings,
): Promise<ProvisionedPlugin[]> {
  const services = new Map<string, unknown>(surroundings.services.map(({ token, service }) => [token.id, service]));
  const provisioned: ProvisionedPlugin[] = [];
  for (const plugin of plugins) {
    const pools: UpstreamPool[] = [];
    const registration = createRegistration(
      plugin.id,
      surroundings.clock,
      surroundings.log.child({ plugin: plugin.id }),
    );
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
