import type { DaemonView, PluginView } from '../../ports/daemon-view.ts';
import type { LoadedConfig } from '../config/load.ts';
import { maskSecrets } from '../config/mask.ts';
import type { Merged } from '../plugins/merge-contributions.ts';
import type { ProvisionedPlugin } from '../plugins/provision.ts';
import { createInnerCalls } from './inner-calls.ts';

export interface DaemonViewParts {
  readonly version: string;
  readonly config: LoadedConfig;
  /** Known once all plugins are provisioned. */
  plugins(): readonly ProvisionedPlugin[];
  merged(): Merged | null;
}

/** What the daemon tells of itself to the plugin that shows it. */
export function createDaemonView({ version, config, plugins, merged }: DaemonViewParts): DaemonView {
  return {
    version,
    isSecure: config.core.admin.tls.certFile !== null,
    plugins: () => plugins().map(viewOf),
    config: () => maskSecrets(config.schema, config.values),
    call: createInnerCalls(() => merged()?.routes ?? []),
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
