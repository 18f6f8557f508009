import { stringify } from '../../lib/json.ts';
import { lazy } from '../../lib/lazy.ts';
import type { InnerCall, InnerReply } from '../../ports/daemon-view.ts';
import { type Check, createValidator, type Validator } from '../calls/validation.ts';
import { parseQuery, queryKinds, typeQuery } from '../http/query.ts';
import { JsonText, type Reply, RequestError, type Route, type RouteRequest } from '../plugin.ts';

interface Prepared {
  readonly route: Route;
  readonly segments: readonly string[];
  readonly checkParams: Check | null;
  readonly checkQuery: Check | null;
  readonly checkBody: Check | null;
}

/** Calls routes without a socket: same checks of path, query and body, no gate, no metering. Routes are prepared with the first call. */
export function createInnerCalls(routes: () => readonly Route[]): (call: InnerCall) => Promise<InnerReply> {
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
    // As in the router, a fixed path wins over one with parameters.
    const best = matching
      .filter(({ one }) => one.route.method === call.method)
      .sort((a, b) => Object.keys(a.params).length - Object.keys(b.params).length)[0];
    if (best === undefined) throw new RequestError(405, 'Method not allowed');
    return readReply(await best.one.route.handler(makeRequest(best.one, best.params, call, mark, path)));
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
