import { lazy } from '../../src/lib/lru.ts';
import { createRightsWatch } from '../../src/lib/rights-watch.ts';
import type { Contribution, HostContext } from '../../src/plugin/host.ts';
import type { Route } from '../../src/plugin/plugin.ts';
import { accessAdmin } from '../../src/ports/access.ts';
import { kernelView } from '../../src/ports/daemon-view.ts';
import { operatorBootstrap } from '../../src/ports/dashboard.ts';
import { dashboardCommands } from './commands.ts';
import type { DashboardConfig } from './config.ts';
import type { PageContext } from './routes/common.ts';
import { loginRoutes } from './routes/login.ts';
import { createLive, operationRoutes } from './routes/operation.ts';
import { pageRoutes, readPages } from './routes/pages.ts';
import { keyRoutes, projectRoutes, usageRoutes, webhookRoute } from './routes/projects.ts';

import { createGuard, createSessions } from './sessions.ts';

import { createAuditLog, createOperatorToken, createProjectSecrets, createStandings } from './store.ts';

const PRUNE_MS = 3_600_000;
const DAY_MS = 86_400_000;
/** How often the rights of sessions are checked; a command next to a daemon on SQLite cannot send a hint. */
const LOOK_MS = 500;
/** Hint for other processes: sessions may have to end. */
const STANDINGS = 'standings';

/** Creates the contribution of the plugin. */
export function assembleDashboard(ctx: HostContext<DashboardConfig>): Contribution {
  const { clock, config, log, random, store } = ctx;
  const access = ctx.use(accessAdmin);
  const daemon = ctx.use(kernelView);
  const operatorToken = createOperatorToken(store, clock, random);
  const ensureOperatorToken = async () => (config.operatorToken === null ? operatorToken.ensure() : null);
  const services = [{ token: operatorBootstrap, service: { ensureOperatorToken } }];
  // Without projects there is nothing to show, and no user to log in.
  if (access === undefined || daemon === undefined) return { services };
  const standings = createStandings(store, config.operatorToken !== null);
  const rights = createRightsWatch<string>({
    clock,
    everyMs: LOOK_MS,
    read: standings.read,
    failed: (error) => log.warn({ err: error }, 'cannot check the sessions of the dashboard'),
  });
  const sessions = createSessions(clock, random, config, rights);
  ctx.metrics.observe('sessions', 'logged-in sessions', sessions.count);
  const audit = createAuditLog(store, clock, random);
  const secrets = createProjectSecrets(store, clock, random);
  const guard = createGuard(sessions);
  const isSecure = config.secureCookie || daemon.isSecure;
  const context: PageContext = {
    access,
    audit,
    clock,
    config,
    daemon,
    guard,
    isSecure,
    operatorToken,
    secrets,
    sessions,
    standings,
    endSessions(name) {
      sessions.closeAll(name);
      ctx.hints.publish(STANDINGS, {});
    },
  };
  const live = createLive(context, ctx);
  const pages = lazy(readPages);
  const routes: readonly Route[] = [
    ...pageRoutes(pages),
    ...loginRoutes(context),
    ...projectRoutes(context),
    ...keyRoutes(context),
    ...usageRoutes(context),
    webhookRoute(context),
    ...operationRoutes(context),
    live.route,
  ];
  let cancel = (): void => {};
  let off = (): void => {};
  const prune = (): void => {
    audit
      .prune(clock.now() - config.auditDays * DAY_MS)
      .catch((error: unknown) => log.warn({ err: error }, 'pruning the audit log failed'));
    cancel = clock.timeout(PRUNE_MS, prune);
  };
  return {
    routes,
    services,
    commands: dashboardCommands(clock, random, config),
    start() {
      if (!ctx.roles.has('api')) return;
      pages();
      off = ctx.hints.subscribe(STANDINGS, rights.lookNow);
      cancel = clock.timeout(PRUNE_MS, prune);
    },
    drain: live.close,
    stop() {
      cancel();
      off();
      rights.stop();
      live.close();
    },
  };
}
