import { lazy } from '../../src/lib/lru.ts';
import type { Contribution } from '../../src/plugin/host.ts';
import type { PluginContext } from '../../src/plugin/plugin.ts';
import { accessAccounts, accessAdmin, accessBootstrap, accessCharges, accessPlans } from '../../src/ports/access.ts';
import { createAdmin } from './admin.ts';
import { createCharges } from './charges.ts';
import {
  keyCommands,
  keyLimitCommands,
  projectCommands,
  projectUsageCommands,
  projectWalletCommands,
} from './commands.ts';
import type { AccessConfig } from './config.ts';
import { createDirectory } from './directory.ts';
import { createGate } from './gate.ts';
import { createKeys } from './keys.ts';
import { createMeter } from './meter.ts';
import { checkStoredPlans, createAllowance, loadPlans } from './plans.ts';
import { createAccounts, createBootstrap, createProjects } from './projects.ts';
import { usageRoute } from './usage.ts';
import { createProjectChanges, createWallets } from './wallets.ts';

/** The contribution of the plugin; everything is opened later. */
export function assembleAccess(ctx: PluginContext<AccessConfig>): Contribution {
  const { store, clock, random, metrics, log, config } = ctx;
  // The plans file is read on first use: by `start`, or by a command.
  const plans = lazy(() => loadPlans(config.plansFile));
  const changes = createProjectChanges(ctx.hints);
  const projects = createProjects(clock, random, plans, changes);
  const keys = createKeys(clock, random, changes);
  const directory = createDirectory({ store, clock, plans, ...config });
  const meter = createMeter({
    ...{ store, clock, log, metrics, plans },
    flushMs: config.usageFlushMs,
    writerId: random.uuid(),
  });
  const bootstrap = createBootstrap({ store, projects, keys, plan: config.defaultPlan });
  const commandParts = {
    projects,
    keys,
    wallets: createWallets(clock, changes),
    clock,
    plans,
    defaultPlan: config.defaultPlan,
  };
  const gate = createGate({ store, directory, meter, clock, metrics, log, config });
  let off = (): void => {};
  return {
    gate,
    routes: [usageRoute({ store, clock, plans, meter })],
    services: [
      { token: accessBootstrap, service: bootstrap },
      { token: accessAdmin, service: createAdmin({ store, clock, plans, projects, keys, meter }) },
      { token: accessAccounts, service: createAccounts(projects, keys, plans) },
      { token: accessPlans, service: createAllowance(plans) },
      { token: accessCharges, service: createCharges({ directory, meter, clock }) },
    ],
    commands: [
      ...projectCommands(commandParts),
      ...projectWalletCommands(commandParts),
      ...projectUsageCommands(commandParts),
      ...keyCommands(commandParts),
      ...keyLimitCommands(commandParts),
    ],
    async start() {
      await checkStoredPlans(store, plans(), config);
      off = changes.listen(gate.changed);
    },
    async stop() {
      off();
      gate.stop();
      await meter.stop();
    },
  };
}
