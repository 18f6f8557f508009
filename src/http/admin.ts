import type { IncomingMessage } from 'node:http';
import { Type } from '@sinclair/typebox';
import type { BudgetLedger } from '../budgets.ts';
import type { CoreConfig } from '../config/core.ts';
import { ipFamily } from '../lib/ip-family.ts';
import { derived } from '../lib/reloadable.ts';
import { defineRoute, json, type Reply, RequestError, type Route, type Tag } from '../plugin/plugin.ts';
import type { Clock, Random } from '../ports/clock.ts';
import type { Inject } from '../ports/daemon-view.ts';
import type { Gauge, Log, Metrics } from '../ports/telemetry.ts';
import type { MetricsRegistry } from '../runtime/metrics.ts';
import { adminConnections, createReadingRate, readDescriptors } from './connections.ts';
import type { Health } from './health.ts';
import { closeListener, createListener, listenOn, setTimeouts } from './listener.ts';
import { createPipeline, slowestMs } from './pipeline.ts';
import { documentRoutes } from './reference/index.ts';
import { createListenerTls } from './tls.ts';

export interface AdminFrontOptions {
  readonly core: CoreConfig;
  /** Routes of all plugins; only those with auth `admin` are served here. */
  readonly routes: readonly Route[];
  readonly health: Health;
  readonly registry: Pick<MetricsRegistry, 'text' | 'contentType'>;
  /** Null: there was none. */
  readonly lastReload: () => ReloadReport | null;
  readonly log: Log;
  /** Scoped to `admin`. */
  readonly metrics: Metrics;
  /** See `ListenerTlsOptions`. */
  readonly expiry: Gauge;
  readonly clock: Clock;
  readonly random: Random;
  /** Budgets of the API callers; null without the role `api`. */
  readonly budgets?: BudgetLedger | null;
  /** Version in the OpenAPI document. */
  readonly version: string;
}

/** The last reload. A refused one has changed nothing. */
export interface ReloadReport {
  /** Counts the reloads since the start. */
  readonly number: number;
  /** Unix milliseconds of its end. */
  readonly at: number;
  /** Why it was refused; null: it was not. */
  readonly error: string | null;
  /** Dotted names of the keys that changed and are in effect. */
  readonly changed: readonly string[];
  /** Dotted names of the keys that changed and need a restart. */
  readonly restart: readonly string[];
}

export interface AdminFront {
  /** Binds, or takes the inherited socket. Throws HTTP_PORT_TAKEN, HTTP_LISTEN_FAILED, TLS_UNREADABLE or TLS_INVALID. */
  listen(fd?: number | null): Promise<{ readonly host: string; readonly port: number }>;
  address(): { readonly host: string; readonly port: number } | null;
  /** Calls a route of the admin listener. */
  readonly inject: Inject;
  /** See `HttpFront.prepareReload`. */
  prepareReload(core: CoreConfig): () => void;
  close(deadline: AbortSignal): Promise<void>;
}

const DESCRIPTION =
  'Admin listener: health, metrics and operator routes of plugins. Network access to it is the protection.';
const OPERATION: Tag = { name: 'Operation', description: 'Health, metrics and state of the daemon' };
const check = Type.Object(
  {
    name: Type.String({ description: 'Name of the check', examples: ['store'] }),
    ok: Type.Boolean({ description: 'Whether it passed' }),
    detail: Type.String({ description: 'State or reason, as text for people', examples: ['sqlite'] }),
  },
  { additionalProperties: true },
);
const readiness = (description: string) =>
  Type.Object(
    {
      ready: Type.Boolean({
        description: 'Whether the daemon should receive traffic',
        examples: [description === READY],
      }),
      checks: Type.Array(check, { description: 'All checks, with the reason of each' }),
    },
    { additionalProperties: true, description },
  );
const READY = 'The daemon is ready';

/** Health, metrics and operator routes on a separate listener. It needs no key: network access to it is the protection. */
export function createAdminFront(options: AdminFrontOptions): AdminFront {
  const { core } = options;
  const operators = [
    ...healthRoutes(options.health),
    metricsRoute(options.registry),
    reloadRoute(options.lastReload),
    ...(options.budgets == null ? [] : [budgetsRoute(options.budgets)]),
    ...options.routes.filter((route) => route.auth === 'admin'),
  ];
  const described = { routes: operators, methods: [], version: options.version, description: DESCRIPTION };
  const routes = [...operators, ...documentRoutes(described, 'admin')];
  const home = homePage(routes.some(({ method, path }) => method === 'GET' && path === '/dashboard'));
  const guard = hostGuard(core.admin.host, () => core.admin.allowedHosts);
  // Operators have no budgets.
  const pipeline = createPipeline({
    ...options,
    budgets: null,
    routes,
    rpc: null,
    gate: null,
    home,
    cors: false,
    guard,
  });
  const limits = () => ({ ...core.http, handlerTimeoutMs: slowestMs(core, routes) });
  const tls = createListenerTls({ ...options, section: 'admin' }, pipeline.meter);
  const server = createListener(limits(), pipeline.meter, pipeline.handle, tls.makeServer);
  pipeline.connections.attach(server);
  createReadingRate({ clock: options.clock, limits: core.http, cut: pipeline.meter.slowReaders }).attach(server);
  let bound: { readonly host: string; readonly port: number } | null = null;
  return {
    listen: async (fd = null) => {
      tls.prepare(core)();
      pipeline.connections.setMost(adminConnections(core.http.maxConnections, readDescriptors()));
      const target =
        fd === null ? { host: core.admin.host, port: core.admin.port, key: 'admin.port' as const } : { fd };
      const { address, port } = await listenOn(server, target);
      bound = { host: address, port };
      options.log.info({ ...bound }, 'admin listener');
      return bound;
    },
    address: () => bound,
    inject: pipeline.inject,
    prepareReload(next) {
      const serve = tls.prepare(next);
      return () => {
        serve();
        setTimeouts(server, limits());
      };
    },
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
function hostGuard(ownHost: string, allowedHosts: () => readonly string[]): (request: IncomingMessage) => void {
  const names = derived(
    allowedHosts,
    (more) => new Set(['localhost', ownHost, ...more].map((host) => host.toLowerCase())),
  );
  return (request) => {
    const { host, origin } = request.headers;
    const name = hostName(host ?? '');
    if (name === '' || (!names().has(name) && ipFamily(name) === 0))
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

/** What a browser gets at `/`: links to what people look for here. */
function homePage(hasDashboard: boolean): Reply {
  const links = [
    ...(hasDashboard ? [['/dashboard', 'Dashboard', 'Health, projects, keys, webhooks and their deliveries']] : []),
    ['/docs/guide', 'Guide', 'Tutorials, how-to, reference and explanation, with search'],
    ['/docs', 'Reference of the admin routes', 'Each route, with a form to try it'],
    ['/readyz', 'Readiness', 'What works and what does not, as JSON'],
    ['/metrics', 'Metrics', 'For Prometheus'],
  ].map(([path, name, what]) => `<li><a href="${path}"><b>${name}</b><span>${what}</span></a></li>`);
  const html = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>parhelion: admin listener</title>
<link rel="icon" href="/docs/icon.svg">
<link rel="stylesheet" href="/docs/docs.css">
</head>
<body class="home">
<main><h1><img src="/docs/icon.svg" alt="">parhelion</h1><p>The admin listener: for operators, on this machine.</p><ul>${links.join('')}</ul></main>
</body>
</html>
`;
  return {
    status: 200,
    bytes: Buffer.from(html),
    contentType: 'text/html; charset=utf-8',
    headers: {
      'Content-Security-Policy':
        "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
      'Referrer-Policy': 'no-referrer',
      'Cache-Control': 'no-store',
      Vary: 'Accept',
    },
  };
}

function healthRoutes(health: Health): Route[] {
  const common = { method: 'GET', tag: OPERATION, auth: 'admin', errors: 'plain' } as const;
  return [
    defineRoute({
      ...common,
      path: '/healthz',
      summary: 'Whether the process is running',
      replies: {
        200: Type.Object(
          { status: Type.String({ description: 'Always ok', examples: ['ok'] }) },
          { description: 'It is running' },
        ),
      },
      handler: () => json(health.live()),
    }),
    defineRoute({
      ...common,
      path: '/readyz',
      summary: 'Whether the daemon should receive traffic, with the reason of each check',
      replies: { 200: readiness(READY), 503: readiness('The daemon is not ready; the checks say why') },
      handler: async () => {
        const readiness = await health.ready();
        return json(readiness, readiness.ready ? 200 : 503);
      },
    }),
  ];
}

const count = (description: string) => Type.Integer({ description, examples: [3] });
const budgetUse = Type.Object(
  {
    budget: Type.String({ description: 'Name of the budget', examples: ['sockets'] }),
    used: count('What the project holds now'),
    limit: Type.Union([Type.Integer(), Type.Null()], { description: 'Limit of the plan', examples: [100] }),
    refused: Type.Integer({ description: 'Refused since the start', examples: [0] }),
  },
  { title: 'BudgetUse', description: 'Use of a budget' },
);

const keyNames = (description: string) =>
  Type.Array(Type.String({ description: 'Dotted name of a key', examples: ['rpc.denyMethods'] }), { description });
const reloadReport = Type.Object(
  {
    number: count('Number of the reload since the start'),
    at: Type.Integer({ description: 'Unix milliseconds of its end', examples: [1_795_000_000_000] }),
    error: Type.Union([Type.String(), Type.Null()], {
      description: 'Why it was refused, with nothing changed; null if it was not',
      examples: [null],
    }),
    changed: keyNames('Keys that changed and are in effect'),
    restart: keyNames('Changed keys that need a restart'),
  },
  { title: 'ReloadReport', description: 'A reload' },
);

function reloadRoute(last: AdminFrontOptions['lastReload']): Route {
  return defineRoute({
    method: 'GET',
    path: '/v0/admin/reload',
    summary: 'What the last reload of the configuration changed; SIGHUP or `parhelion reload` starts one',
    tag: OPERATION,
    auth: 'admin',
    errors: 'admin',
    replies: {
      200: Type.Object(
        { last: Type.Union([reloadReport, Type.Null()], { description: 'The last reload; null if there was none' }) },
        { description: 'The last reload' },
      ),
    },
    handler: () => json({ last: last() }),
  });
}

function budgetsRoute(budgets: BudgetLedger): Route {
  return defineRoute({
    method: 'GET',
    path: '/v0/admin/projects/:project/budgets',
    summary:
      'Budgets that a project holds now: in-memory ones of the thread that answers, stored ones of all processes',
    tag: OPERATION,
    auth: 'admin',
    errors: 'admin',
    params: Type.Object({
      project: Type.String({
        maxLength: 64,
        description: 'Id of the project',
        examples: ['b5a3e1c2-7d64-4c0a-9e39-2f1f5a0d8c11'],
      }),
    }),
    replies: {
      200: Type.Object(
        { budgets: Type.Array(budgetUse, { description: 'All budgets' }) },
        { description: 'The budgets of the project' },
      ),
    },
    handler: async ({ params }) => json({ budgets: await budgets.useOf(params.project) }),
  });
}

function metricsRoute(registry: AdminFrontOptions['registry']): Route {
  return defineRoute({
    method: 'GET',
    path: '/metrics',
    summary: 'Metrics in the Prometheus text format',
    tag: OPERATION,
    auth: 'admin',
    errors: 'plain',
    replies: { 200: Type.String({ contentMediaType: 'text/plain', description: 'The metrics' }) },
    handler: async () => ({
      status: 200,
      bytes: Buffer.from(await registry.text()),
      contentType: registry.contentType,
    }),
  });
}
