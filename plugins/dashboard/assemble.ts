import type { Contribution, PluginContext, Route } from '../../src/kernel/plugin.ts';
import { lazy } from '../../src/lib/lazy.ts';
import { accessAdmin } from '../../src/ports/access-admin.ts';
import { kernelView } from '../../src/ports/daemon-view.ts';
import { operatorBootstrap } from '../../src/ports/dashboard.ts';
import { dashboardCommands } from './commands.ts';
import type { DashboardConfig } from './config.ts';
import { readPages } from './pages.ts';
import type { PageContext } from './routes/common.ts';
import { keyRoutes } from './routes/keys.ts';
import { createLive } from './routes/live.ts';
import { loginRoutes } from './routes/login.ts';
import { operationRoutes } from './routes/operation.ts';
import { pageRoutes } from './routes/pages.ts';
import { projectRoutes } from './routes/projects.ts';
import { usageRoutes } from './routes/usage.ts';
import { webhookRoute } from './routes/webhooks.ts';
import { createGuard } from './session/guard.ts';
import { createSessions } from './session/sessions.ts';
import { createAuditLog } from './store/audit.ts';
import { createOperatorToken } from './store/operator-token.ts';
import { createProjectSecrets } from './store/project-secrets.ts';

const PRUNE_MS = 3_600_000;
const DAY_MS = 86_400_000;

/** Puts the parts of the plugin together. */
export function assembleDashboard(ctx: PluginContext<DashboardConfig>): Contribution {
  const { clock, config, log, random, store } = ctx;
  const access = ctx.use(accessAdmin);
  const daemon = ctx.use(kernelView);
  const operatorToken = createOperatorToken(store, clock, random);
  const ensureOperatorToken = async () => (config.operatorToken === null ? operatorToken.ensure() : null);
  const services = [{ token: operatorBootstrap, service: { ensureOperatorToken } }];
  // Without projects there is nothing to show, and nobody who could log in.
  if (access === undefined || daemon === undefined) return { services };
  const sessions = createSessions(clock, random, config);
  ctx.metrics.observe('sessions', 'people who are logged in', sessions.count);
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
      cancel = clock.timeout(PRUNE_MS, prune);
    },
    drain: live.close,
    stop() {
      cancel();
      live.close();
    },
  };
}
