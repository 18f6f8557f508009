import { lazy } from '../../src/lib/lazy.ts';
import { createRightsWatch } from '../../src/lib/rights-watch.ts';
import type { HostContext } from '../../src/plugin/host.ts';
import type { ChainId } from '../../src/plugin/plugin.ts';
import { type AccessAdmin, accessAdmin, accessRemoval } from '../../src/ports/access.ts';
import { type DaemonView, kernelView, operatorBootstrap } from '../../src/ports/daemon-view.ts';
import { kernelGaps } from '../../src/ports/following.ts';
import { kernelApiPeers } from '../../src/ports/processes.ts';
import { offChainDocuments } from '../../src/ports/tokens.ts';
import { dashboardCommands } from './commands.ts';
import type { DashboardConfig } from './config.ts';
import { createOperators } from './operators.ts';
import { createRecentRequests } from './requests.ts';
import type { PageContext } from './routes/common.ts';
import { loginRoutes } from './routes/login.ts';
import { lookUpRoutes } from './routes/look-up.ts';
import { createLive, operationRoutes } from './routes/operation.ts';
import { operatorRoutes } from './routes/operators.ts';
import { arePagesBuilt, pageRoutes, readPageFiles } from './routes/pages.ts';
import { createPlayground } from './routes/playground.ts';
import { portalRoutes } from './routes/portal.ts';
import { endpointRoutes, keyRoutes, projectRoutes, usageRoutes } from './routes/projects.ts';
import { singleSignOnRoutes } from './routes/single-sign-on.ts';
import { createSampler, withOtherThreads } from './series.ts';
import {
  CHANGE_PACE,
  createGuard,
  createLoginBrake,
  createOwnerPace,
  createSessions,
  PICTURES,
  type SessionLimits,
} from './sessions.ts';
import { createSingleSignOn } from './single-sign-on.ts';
import {
  createAuditLog,
  createOperatorToken,
  createProjectSecrets,
  createStandings,
  endAccess,
  type OperatorToken,
} from './store.ts';

const CHAINS: readonly ChainId[] = ['main', 'devnet'];
const PRUNE_MS = 3_600_000;
const DAY_MS = 86_400_000;
/** How often the rights of sessions are checked; a command next to a daemon on SQLite cannot send a hint. */
const LOOK_MS = 500;
/** Hint for other processes: sessions may have to end. */
const STANDINGS = 'standings';

export function provision(ctx: HostContext<DashboardConfig>): void {
  const { clock, config, random, roles, store } = ctx;
  const operatorToken = createOperatorToken(store, clock, random);
  const ensureOperatorToken = async () => (config.operatorToken === null ? operatorToken.ensure() : null);
  ctx.provide(operatorBootstrap, { ensureOperatorToken });
  ctx.use(accessRemoval)?.onDelete(endAccess);
  const daemon = ctx.use(kernelView);
  if (daemon === undefined) return;
  const access = ctx.use(accessAdmin);
  const source = random.uuid();
  // Without projects there is nothing to show, and no user to log in.
  if (access !== undefined && roles.has('api')) registerPages(ctx, { access, daemon, operatorToken, source });
  registerSampler(ctx, daemon, source);
}

interface PageParts {
  readonly access: AccessAdmin;
  readonly daemon: DaemonView;
  readonly operatorToken: OperatorToken;
  /** Name of this thread among those that measure. */
  readonly source: string;
}

function registerPages(ctx: HostContext<DashboardConfig>, { access, daemon, operatorToken, source }: PageParts): void {
  const { clock, config, log, random, store } = ctx;
  const sso = createSingleSignOn(config);
  const standings = createStandings(store, {
    isTokenConfigured: config.operatorToken !== null,
    hasProvider: sso !== null,
  });
  const rights = createRightsWatch<string>({
    clock,
    everyMs: LOOK_MS,
    read: standings.read,
    failed: (error) => log.warn({ err: error }, 'cannot check the sessions of the dashboard'),
  });
  const sessions = createSessions(clock, random, config, rights);
  const links = createSessions(clock, random, linkLimits(config), rights);
  ctx.metrics.observe('sessions', 'logged-in sessions', sessions.count);
  const audit = createAuditLog(store, clock, random);
  const requests = createRecentRequests(store, config, ctx.use(kernelApiPeers)?.peers ?? null);
  const context: PageContext = {
    access,
    audit,
    clock,
    config,
    daemon,
    guard: createGuard(sessions),
    pace: createOwnerPace(clock, CHANGE_PACE),
    picturePace: createOwnerPace(clock, PICTURES),
    genesisHashes: () =>
      Object.fromEntries(
        CHAINS.flatMap((chain) => {
          const status = ctx.chain(chain)?.status();
          return status === undefined ? [] : [[chain, status.genesisHash]];
        }),
      ),
    isLocalChain: () => ctx.chain('main')?.status().kind === 'local',
    isSecure: config.secureCookie || daemon.isSecure,
    operatorToken,
    operators: createOperators(store, clock, random),
    requests,
    budgets: async (project) => {
      const threads = { store, clock, source, intervalMs: config.sampleIntervalMs };
      return await withOtherThreads(threads, project, await daemon.budgets(project));
    },
    secrets: createProjectSecrets(store, clock, random),
    sessions,
    standings,
    store,
    endSessions(name) {
      sessions.closeAll(name);
      links.closeAll(name);
      ctx.hints.publish(STANDINGS, {});
    },
  };
  const brake = createLoginBrake(clock, () => config.loginFailuresPerMinute);
  const live = createLive(context, ctx);
  const playground = createPlayground(context, { chain: ctx.chain('main'), random });
  const pages = lazy(readPageFiles);
  const routes = [
    ...pageRoutes(pages, config),
    ...loginRoutes(context, brake),
    ...singleSignOnRoutes(context, sso, brake),
    ...operatorRoutes(context),
    ...portalRoutes(context, { links, brake }),
    ...projectRoutes(context),
    ...keyRoutes(context),
    ...usageRoutes(context),
    ...endpointRoutes(context),
    ...lookUpRoutes(context, { documents: ctx.use(offChainDocuments), random }),
    ...operationRoutes(context, ctx.use(kernelGaps)),
    ...playground.routes,
    live.route,
  ];
  for (const route of routes) ctx.http.route(route);
  for (const command of dashboardCommands(clock, random, config)) ctx.command(command);
  let off = (): void => {};
  let offRequests = (): void => {};
  let offBlocks = (): void => {};
  ctx.onStart(async () => {
    await sso?.ready();
    if (arePagesBuilt()) await pages();
    offRequests = daemon.onRequest(requests.note);
    offBlocks = playground.start();
    off = ctx.hints.subscribe(STANDINGS, rights.lookNow);
  });
  ctx.onDrain(live.close);
  ctx.onStop(() => {
    off();
    offRequests();
    offBlocks();
    rights.stop();
    live.close();
  });
  ctx.every(config.sampleIntervalMs, requests.flush);
  ctx.every(PRUNE_MS, () => audit.prune(clock.now() - config.auditDays * DAY_MS));
}

/** As of sessions; a link is opened soon or never. */
const linkLimits = (config: DashboardConfig): SessionLimits => ({
  get sessionIdleMinutes() {
    return config.portal.linkSeconds / 60;
  },
  get sessionMaxHours() {
    return config.sessionMaxHours;
  },
  get maxSessions() {
    return config.maxSessions;
  },
  get maxSessionsPerIdentity() {
    return config.maxSessionsPerIdentity;
  },
});

/** Every thread measures itself; the upstreams are the same for all threads, so one of them is enough. */
function registerSampler(
  ctx: HostContext<DashboardConfig>,
  { heldBudgets, metrics }: DaemonView,
  source: string,
): void {
  const upstreams = () =>
    CHAINS.flatMap((chain) => (ctx.upstreams(chain)?.states() ?? []).map((state) => ({ chain, ...state })));
  const sample = createSampler({
    store: ctx.store,
    clock: ctx.clock,
    source,
    metrics,
    held: heldBudgets,
    ...(ctx.roles.has('api') ? { upstreams } : {}),
  });
  ctx.every(ctx.config.sampleIntervalMs, sample);
}
