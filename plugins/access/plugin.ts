import { CodedError, EXIT } from '../../src/lib/coded-error.ts';
import { lazy } from '../../src/lib/lazy.ts';
import { gateService, type HostContext } from '../../src/plugin/host.ts';
import {
  accessAccounts,
  accessAdmin,
  accessBootstrap,
  accessCharges,
  accessPlans,
  accessRemoval,
} from '../../src/ports/access.ts';
import { kernelView } from '../../src/ports/daemon-view.ts';
import { kernelApiPeers } from '../../src/ports/processes.ts';
import {
  keyCommands,
  keyLimitCommands,
  projectCommands,
  projectStateCommands,
  projectUsageCommands,
  projectWalletCommands,
} from './commands.ts';
import type { AccessConfig } from './config.ts';
import { borrowCredits } from './credits.ts';
import { createDirectory } from './directory.ts';
import { createGate } from './gate/index.ts';
import { createKeys } from './keys.ts';
import { createMeter, createProjectMetrics } from './meter.ts';
import { checkStoredPlans, createAllowance, createPlans, PUBLISHED_PLANS } from './plans.ts';
import { createProjectChanges, createProjects, createRemoval, createWallets } from './projects.ts';
import { createAccessAccounts, createAdmin, createBootstrap, createCharges } from './services.ts';
import { usageRoute } from './usage.ts';

/** Registers the parts of the plugin; everything is opened later. */
export async function provision(ctx: HostContext<AccessConfig>): Promise<void> {
  const { store, clock, random, metrics, log, config } = ctx;
  const peers = ctx.use(kernelApiPeers)?.peers ?? null;
  // The plans file is read on first use: by `start`, or by a command.
  const { plansFile } = config;
  const { loadPlans } =
    plansFile === null ? { loadPlans: () => createPlans(PUBLISHED_PLANS) } : await import('./plans-file.ts');
  const plans = lazy(() => loadPlans(plansFile));
  const changes = createProjectChanges(ctx.hints, peers, clock);
  const removal = createRemoval();
  const projects = createProjects(clock, random, plans, changes, removal);
  const keys = createKeys(clock, random, changes);
  const directory = createDirectory({ store, clock, plans, ...config });
  const perProject = createProjectMetrics(metrics, config.metricsProjects);
  const creditLoan = peers === null || peers.isMain ? null : borrowCredits(peers, clock);
  const meter = createMeter({
    creditLoan,
    store,
    clock,
    log,
    metrics,
    perProject,
    plans,
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
  const gate = createGate({
    store,
    directory,
    meter,
    clock,
    metrics,
    perProject,
    log,
    config,
    peers,
    creditLoan,
    plans,
  });
  peers?.answer('flush', () => meter.flush());
  /** Usage counted in any process of the API. */
  const flush = async () => void (await Promise.all([meter.flush(), peers?.askOthers('flush', null)]));
  let off = (): void => {};
  ctx.host.gate(gate);
  ctx.provide(gateService, gate);
  ctx.http.route(usageRoute({ store, clock, plans, meter: { flush } }));
  ctx.provide(accessBootstrap, bootstrap);
  ctx.provide(accessAdmin, createAdmin({ store, clock, plans, projects, keys, meter: { flush } }));
  ctx.provide(accessAccounts, createAccessAccounts(projects, keys, plans));
  ctx.provide(accessPlans, createAllowance(plans));
  ctx.provide(accessRemoval, { onDelete: removal.onDelete });
  ctx.provide(accessCharges, createCharges({ directory, meter, clock }));
  const commands = [
    ...projectCommands(commandParts),
    ...projectStateCommands(commandParts),
    ...projectWalletCommands(commandParts),
    ...projectUsageCommands(commandParts),
    ...keyCommands(commandParts),
    ...keyLimitCommands(commandParts),
  ];
  for (const command of commands) ctx.command(command);
  ctx.checkConfig(() => {
    if (plans().has(config.defaultPlan)) return;
    const known = plans().names.join(', ');
    throw new CodedError('ACCESS_UNKNOWN_PLAN', `there is no plan "${config.defaultPlan}"; the plans are ${known}`, {
      exitCode: EXIT.config,
      facts: { path: 'access.defaultPlan' },
    });
  });
  ctx.onStart(async () => {
    await checkStoredPlans(store, plans(), config);
    const offs = [changes.listen(gate.changed)];
    // A request is described only if somebody listens.
    const view = config.metricsProjects === 0 ? undefined : ctx.use(kernelView);
    if (view !== undefined)
      offs.push(view.onRequest(({ projectId, status }) => perProject.answered(projectId, status)));
    off = () => {
      for (const end of offs) end();
    };
  });
  ctx.onStop(async () => {
    off();
    gate.stop();
    await meter.stop();
  });
}
