import type { BudgetLedger } from '../budgets.ts';
import { maskSecrets } from '../config/dump.ts';
import type { LoadedConfig } from '../config/load.ts';
import { fillDefaults, type SchemaNode } from '../config/node.ts';
import { isPlainObject } from '../lib/json.ts';
import type { AnsweredRequest, DaemonView, Inject, PluginView, ReadinessView, Setting } from '../ports/daemon-view.ts';
import type { MetricsRegistry } from '../runtime/metrics.ts';
import type { ProvisionedPlugin } from './provision.ts';

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
  readiness(): Promise<ReadinessView>;
}

/** Those who want to see answered requests; with none, requests cost nothing more. */
export type AnsweredRequests = Set<(request: AnsweredRequest) => void>;

/** The state of the daemon for the dashboard. */
export function createDaemonView(parts: DaemonViewParts): DaemonView {
  const { version, config, plugins, inject, budgets, metrics, requests, readiness } = parts;
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
    budgets: budgets.useOf,
    heldBudgets: budgets.held,
    call: (call) => inject()(call),
  };
}

function viewOf({ id, definition, contribution }: ProvisionedPlugin): PluginView {
  const { routes = [], rpc = [], processors = [], jobs = [] } = contribution;
  return {
    ...{ id, summary: definition.summary },
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
