import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import { Type } from '@sinclair/typebox';
import type { BudgetLedger } from '../budgets.ts';
import type { CoreConfig } from '../config/core.ts';
import { defineRoute, json, RequestError, type Route } from '../plugin/plugin.ts';
import type { Clock, Random } from '../ports/clock.ts';
import type { Log } from '../ports/log.ts';
import type { Metrics } from '../ports/metrics.ts';
import type { MetricsRegistry } from '../runtime/metrics.ts';
import { adminConnections, readDescriptors } from './connections.ts';
import type { Health } from './health.ts';
import { closeListener, createListener, listenOn } from './listener.ts';
import { documentRoute } from './openapi.ts';
import { createPipeline, slowestMs } from './pipeline.ts';
import { createListenerTls } from './tls.ts';

export interface AdminFrontOptions {
  readonly core: CoreConfig;
  /** Routes of all plugins; only those with auth `admin` are served here. */
  readonly routes: readonly Route[];
  readonly health: Health;
  readonly registry: Pick<MetricsRegistry, 'text' | 'contentType'>;
  readonly log: Log;
  /** Scoped to `admin`. */
  readonly metrics: Metrics;
  readonly clock: Clock;
  readonly random: Random;
  /** Budgets of the API callers; null without the role `api`. */
  readonly budgets?: BudgetLedger | null;
  /** Version in the OpenAPI document. */
  readonly version: string;
}

export interface AdminFront {
  /** Binds, or takes the inherited socket. Throws HTTP_PORT_TAKEN, HTTP_LISTEN_FAILED, TLS_UNREADABLE or TLS_INVALID. */
  listen(fd?: number | null): Promise<{ readonly host: string; readonly port: number }>;
  address(): { readonly host: string; readonly port: number } | null;
  /** See `HttpFront.prepareTls`. */
  prepareTls(core: CoreConfig): () => void;
  close(deadline: AbortSignal): Promise<void>;
}

const DESCRIPTION = 'Admin listener: health, metrics and operator routes of plugins.';

/** Health, metrics and operator routes on a separate listener. It needs no key: network access to it is the protection. */
export function createAdminFront(options: AdminFrontOptions): AdminFront {
  const { core } = options;
  const operators = [
    ...healthRoutes(options.health),
    metricsRoute(options.registry),
    ...(options.budgets == null ? [] : [budgetsRoute(options.budgets)]),
    ...options.routes.filter((route) => route.auth === 'admin'),
  ];
  const described = { routes: operators, methods: [], version: options.version, description: DESCRIPTION };
  const routes = [...operators, documentRoute(described, 'admin')];
  const guard = hostGuard(core.admin.host, core.admin.allowedHosts);
  // Operators have no budgets.
  const pipeline = createPipeline({ ...options, budgets: null, routes, rpc: null, gate: null, cors: false, guard });
  const limits = { ...core.http, handlerTimeoutMs: slowestMs(core, routes) };
  const tls = createListenerTls({ ...options, section: 'admin' }, pipeline.meter);
  const server = createListener(limits, pipeline.meter, pipeline.handle, tls.makeServer);
  pipeline.connections.attach(server);
  let bound: { readonly host: string; readonly port: number } | null = null;
  return {
    listen: async (fd = null) => {
      tls.prepare(core)();
      pipeline.connections.setMost(adminConnections(core.http.maxConnections, readDescriptors()));
      const target = fd === null ? { host: core.admin.host, port: core.admin.port } : { fd };
      const { address, port } = await listenOn(server, target);
      bound = { host: address, port };
      options.log.info({ ...bound }, 'admin listener');
      return bound;
    },
    address: () => bound,
    prepareTls: tls.prepare,
    close: async (deadline) => {
      const closed = closeListener(server);
      tls.endHandshakes();
      await pipeline.inFlight.idle(deadline);
      pipeline.inFlight.abortAll('the service is shutting down');
      server.closeAllConnections();
      await closed;
    },
  };
}

/**
 * Refuses requests that a browser was tricked into: a page whose name was rebound to this address (DNS rebinding) sends that name as
 * Host, and a page of another origin sends an Origin other than this host. Literal addresses cannot be rebound.
 */
function hostGuard(ownHost: string, allowedHosts: readonly string[]): (request: IncomingMessage) => void {
  const allowed = new Set(['localhost', ownHost, ...allowedHosts].map((host) => host.toLowerCase()));
  return (request) => {
    const { host, origin } = request.headers;
    const name = hostName(host ?? '');
    if (name === '' || (!allowed.has(name) && isIP(name) === 0))
      throw new RequestError(403, 'Forbidden', { details: 'This Host is not allowed; see admin.allowedHosts' });
    if (origin === undefined) return;
    if (origin.replace(/^https?:\/\//i, '').toLowerCase() !== (host ?? '').toLowerCase())
      throw new RequestError(403, 'Forbidden', { details: 'Requests of other origins are not allowed' });
  };
}

/** The host without its port; empty for an invalid host, such as one with user information. */
function hostName(host: string): string {
  const [, literal, name] = /^(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(?::\d{1,5})?$/.exec(host.toLowerCase()) ?? [];
  return literal ?? name ?? '';
}

function healthRoutes(health: Health): Route[] {
  const common = { method: 'GET', tag: 'Operation', auth: 'admin', errors: 'plain' } as const;
  return [
    defineRoute({
      ...common,
      path: '/healthz',
      summary: 'Whether the process is running',
      replies: { 200: Type.Object({ status: Type.String() }) },
      handler: () => json(health.live()),
    }),
    defineRoute({
      ...common,
      path: '/readyz',
      summary: 'Whether the daemon should receive traffic, with the reason of each check',
      replies: { 200: Type.Object({ ready: Type.Boolean() }), 503: Type.Object({ ready: Type.Boolean() }) },
      handler: async () => {
        const readiness = await health.ready();
        return json(readiness, readiness.ready ? 200 : 503);
      },
    }),
  ];
}

const budgetUse = Type.Object({
  budget: Type.String(),
  used: Type.Integer(),
  limit: Type.Union([Type.Integer(), Type.Null()], { description: 'limit of the plan' }),
  refused: Type.Integer({ description: 'since the start' }),
});

function budgetsRoute(budgets: BudgetLedger): Route {
  return defineRoute({
    method: 'GET',
    path: '/v0/admin/projects/:project/budgets',
    summary: 'Budgets that a project holds now: in-memory ones of this process, stored ones of all processes',
    tag: 'Operation',
    auth: 'admin',
    errors: 'admin',
    params: Type.Object({ project: Type.String({ maxLength: 64 }) }),
    replies: { 200: Type.Object({ budgets: Type.Array(budgetUse) }) },
    handler: async ({ params }) => json({ budgets: await budgets.useOf(params.project) }),
  });
}

function metricsRoute(registry: AdminFrontOptions['registry']): Route {
  return defineRoute({
    method: 'GET',
    path: '/metrics',
    summary: 'Metrics in the Prometheus text format',
    tag: 'Operation',
    auth: 'admin',
    errors: 'plain',
    replies: { 200: Type.String({ contentMediaType: 'text/plain' }) },
    handler: async () => ({
      status: 200,
      bytes: Buffer.from(await registry.text()),
      contentType: registry.contentType,
    }),
  });
}
