/** The access plugin on a store of the test, with a clock that the test moves. */
import { type AccessConfig, accessConfig } from '../../plugins/access/config.ts';
import { borrowCredits } from '../../plugins/access/credits.ts';
import { createDirectory } from '../../plugins/access/directory.ts';
import { createGate } from '../../plugins/access/gate/index.ts';
import { createKeys } from '../../plugins/access/keys.ts';
import { createMeter, createProjectMetrics } from '../../plugins/access/meter.ts';
import type { Overrides } from '../../plugins/access/plans.ts';
import { loadPlans } from '../../plugins/access/plans-file.ts';
import { createProjectChanges, createProjects, findProjectRow } from '../../plugins/access/projects.ts';
import { migrations } from '../../plugins/access/tables.ts';
import { readUsage, usageRecord } from '../../plugins/access/usage.ts';
import { createSystemRandom } from '../../src/adapters/clock.ts';
import { fillDefaults, type SchemaNode } from '../../src/config/node.ts';
import type { Credentials, Gate, GateItem } from '../../src/plugin/host.ts';
import type { Clock } from '../../src/ports/clock.ts';
import type { ApiPeers } from '../../src/ports/processes.ts';
import type { Store } from '../../src/ports/store.ts';
import { createMetricsRegistry } from '../../src/runtime/metrics.ts';
import { migrate } from '../../src/store/migrate.ts';
import { createManualClock, type ManualClock } from './manual-clock.ts';
import { createMemoryLog } from './memory-log.ts';

export interface AccessBedOptions {
  readonly config?: Partial<AccessConfig>;
  readonly clock?: ManualClock;
  readonly plan?: string;
  readonly overrides?: Overrides;
}

const none: Credentials = { query: [], header: undefined, bearer: undefined };

/** One api process: gate and meter. Several of them on one store are several processes. */
export function startAccess(
  store: Store,
  clock: Clock,
  config: Partial<AccessConfig> = {},
  peers: ApiPeers | null = null,
) {
  const filled = { ...(fillDefaults(accessConfig as unknown as SchemaNode, {}) as AccessConfig), ...config };
  const random = createSystemRandom();
  const plans = loadPlans(filled.plansFile);
  const registry = createMetricsRegistry();
  const metrics = registry.scope('access');
  const log = createMemoryLog();
  const writerId = random.uuid();
  const flushMs = filled.usageFlushMs;
  const perProject = createProjectMetrics(metrics, filled.metricsProjects);
  const creditLoan = peers === null || peers.isMain ? null : borrowCredits(peers, clock);
  const meter = createMeter({
    store,
    clock,
    log,
    metrics,
    perProject,
    plans: () => plans,
    flushMs,
    writerId,
    creditLoan,
  });
  const directory = createDirectory({ store, clock, plans: () => plans, ...filled });
  const gate: Gate = createGate({
    store,
    directory,
    meter,
    clock,
    metrics,
    perProject,
    log,
    config: filled,
    peers,
    creditLoan,
    plans: () => plans,
  });
  const ask = async (credentials: Partial<Credentials>, address = '127.0.0.1') =>
    await gate.authenticate({ ...none, ...credentials }, address);
  return { gate, meter, directory, plans, log, registry, ask };
}

/** A store with a project, and one process on it. */
export async function accessBed(store: Store, options: AccessBedOptions = {}) {
  await migrate(store, [{ scope: 'access', migrations }]);
  const clock = options.clock ?? createManualClock();
  const random = createSystemRandom();
  const process = startAccess(store, clock, options.config);
  const changes = createProjectChanges({ publish: () => undefined, subscribe: () => () => undefined }, null, clock);
  const projects = createProjects(clock, random, () => process.plans, changes);
  const keys = createKeys(clock, random, changes);
  const project = await store.write((tx) => projects.create(tx, { name: 'p', plan: options.plan ?? 'free' }));
  const { overrides } = options;
  if (overrides !== undefined) await store.write((tx) => projects.change(tx, project.id, { overrides }));
  const addKey = (more: Partial<Parameters<typeof keys.create>[1]> = {}) =>
    store.write((tx) => keys.create(tx, { projectId: project.id, ...more }));
  const usage = async (id = project.id) => {
    const row = await findProjectRow(store, id);
    const found = await readUsage(store.read, row, process.plans, clock.now());
    if (found === null) throw new Error('no plan');
    return usageRecord(found);
  };
  return { store, clock, ...process, projects, keys, project, addKey, usage };
}

/** An item with a price, as a route or a method has it. */
export function pricedItem(name: string, price: Partial<NonNullable<GateItem['price']>> = {}): GateItem {
  return { name, price: { product: 'rpc', credits: 1, groups: ['rpc'], ...price }, permission: undefined };
}
