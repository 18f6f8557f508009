import type { BudgetLedger } from '../budgets.ts';
import { maskSecrets } from '../config/dump.ts';
import type { LoadedConfig } from '../config/load.ts';
import { parseQuery, queryKinds, typeQuery } from '../http/query.ts';
import { type Check, createValidator, type Validator } from '../http/validation.ts';
import { stringify } from '../lib/json.ts';
import { lazy } from '../lib/lru.ts';
import type { Gate } from '../plugin/host.ts';
import { JsonText, type Reply, RequestError, type Route, type RouteRequest } from '../plugin/plugin.ts';
import type { DaemonView, InnerCall, InnerReply, PluginView } from '../ports/daemon-view.ts';
import type { Merged, ProvisionedPlugin } from './provision.ts';

interface DaemonViewParts {
  readonly version: string;
  readonly config: LoadedConfig;
  /** Set once all plugins are provisioned. */
  plugins(): readonly ProvisionedPlugin[];
  merged(): Merged | null;
  readonly budgets: BudgetLedger;
}

/** The state of the daemon for the dashboard. */
export function createDaemonView({ version, config, plugins, merged, budgets }: DaemonViewParts): DaemonView {
  return {
    version,
    isSecure: config.core.admin.tls.certFile !== null,
    plugins: () => plugins().map(viewOf),
    config: () => maskSecrets(config.schema, config.values),
    budgets: budgets.useOf,
    call: createInnerCalls(
      () => merged()?.routes ?? [],
      () => merged()?.gate ?? null,
    ),
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

interface Prepared {
  readonly route: Route;
  readonly segments: readonly string[];
  readonly checkParams: Check | null;
  readonly checkQuery: Check | null;
  readonly checkBody: Check | null;
}

/**
 * Calls routes without a socket, with the same checks of path, query and body. Calls that change data of a project pass the gate like
 * calls with its key. Routes are compiled at the first call.
 */
export function createInnerCalls(
  routes: () => readonly Route[],
  gate: () => Gate | null = () => null,
): (call: InnerCall) => Promise<InnerReply> {
  const prepared = lazy(() => {
    const validator = createValidator();
    return routes().map((route) => prepare(route, validator));
  });
  return async (call) => {
    const mark = call.path.indexOf('?');
    const path = mark < 0 ? call.path : call.path.slice(0, mark);
    const segments = path.split('/').map(decodeSegment);
    const matching = prepared().flatMap((one) => {
      const params = match(one.segments, segments);
      return params === null ? [] : [{ one, params }];
    });
    if (matching.length === 0) throw new RequestError(404, 'invalid path');
    // As in the router, a fixed path has precedence over one with parameters.
    const best = matching
      .filter(({ one }) => one.route.method === call.method)
      .sort((a, b) => Object.keys(a.params).length - Object.keys(b.params).length)[0];
    if (best === undefined) throw new RequestError(405, 'Method not allowed');
    const { route } = best.one;
    const settle = await admit(gate(), route, call);
    let status = 500;
    try {
      const reply = await route.handler(makeRequest(best.one, best.params, call, mark, path));
      status = reply.status;
      return readReply(reply);
    } finally {
      settle(status);
    }
  };
}

/** Throws GateRefusal. The returned function charges the call according to its status. */
async function admit(gate: Gate | null, route: Route, { caller }: InnerCall): Promise<(status: number) => void> {
  // Pages are polled; reads must not use up the credits of the project.
  if (gate?.callerOf === undefined || caller === null || route.method === 'GET') return () => undefined;
  const item = { name: route.path, price: route.price, permission: route.permission };
  const admission = await gate.admit(await gate.callerOf(caller.projectId), [item]);
  return (status) => {
    const charged = (status >= 200 && status < 300) || (route.price?.chargedStatuses?.includes(status) ?? false);
    admission.settle([{ charged, bytesOut: 0 }]);
  };
}

function prepare(route: Route, validator: Validator): Prepared {
  const compile = (schema: Parameters<Validator['compile']>[0] | undefined, name: string) =>
    schema === undefined ? null : validator.compile(schema, name);
  return {
    route,
    segments: route.path.split('/'),
    checkParams: compile(route.params, 'path'),
    checkQuery: compile(route.query, 'query'),
    checkBody: compile(route.body, 'body'),
  };
}

function match(pattern: readonly string[], segments: readonly string[]): Record<string, string> | null {
  if (pattern.length !== segments.length) return null;
  const params: Record<string, string> = {};
  for (const [at, part] of pattern.entries()) {
    const segment = segments[at] as string;
    if (!part.startsWith(':')) {
      if (part !== segment) return null;
    } else if (segment === '') return null;
    else params[part.slice(1)] = segment;
  }
  return params;
}

function decodeSegment(segment: string): string {
  let decoded: string;
  try {
    decoded = decodeURIComponent(segment);
  } catch {
    throw new RequestError(400, 'invalid path');
  }
  if (decoded.includes('/')) throw new RequestError(400, 'invalid path');
  return decoded;
}

function makeRequest(
  { route, checkParams, checkQuery, checkBody }: Prepared,
  params: Record<string, string>,
  call: InnerCall,
  mark: number,
  path: string,
): RouteRequest {
  const pairs = parseQuery(mark < 0 ? '' : call.path.slice(mark + 1));
  const query = route.query === undefined ? {} : typeQuery(pairs, queryKinds(route.query.properties));
  demand('Invalid path parameter', checkParams?.(params) ?? null);
  demand('Invalid query parameter', checkQuery?.(query) ?? null);
  const { body } = call;
  if (!(body === undefined && route.bodyOptional === true)) demand('Invalid request body', checkBody?.(body) ?? null);
  const { requestId, log, signal, caller, remoteAddress, method } = call;
  const rawBody = route.body === undefined ? {} : { rawBody: Buffer.from(body === undefined ? '' : stringify(body)) };
  return { requestId, log, signal, caller, remoteAddress, method, path, params, query, headers: {}, body, ...rawBody };
}

function demand(message: string, problem: string | null): void {
  if (problem !== null) throw new RequestError(400, message, { details: problem });
}

function readReply({ status, json, jsonBytes, bytes }: Reply): InnerReply {
  if (json instanceof JsonText) return { status, text: json.text };
  if (json !== undefined) return { status, text: stringify(json) };
  const raw = jsonBytes ?? bytes;
  return { status, text: raw === undefined ? '' : Buffer.from(raw).toString() };
}
