import findMyWay from 'find-my-way';
import type { GateItem } from '../plugin/host.ts';
import type { Route } from '../plugin/plugin.ts';
import type { HttpMeter, RouteMeter } from './meter.ts';
import { type QueryKind, queryKinds } from './query.ts';
import type { Validator, ValueCheck } from './validation.ts';

/** The routes of a path, by method. */
interface PathEntry {
  readonly pattern: string;
  readonly methods: ReadonlyMap<string, CompiledRoute>;
  /** Value of the Allow header. */
  readonly allow: string;
}

export interface RouteMatch {
  readonly entry: PathEntry;
  readonly params: Readonly<Record<string, string>>;
}

export interface Router {
  match(target: RequestTarget): RouteMatch | null;
}

const NO_PARAMS: Readonly<Record<string, string>> = {};

/** Paths without parameters are in a map; find-my-way matches the others. */
export function createRouter(routes: readonly CompiledRoute[], maxParamLength: number): Router {
  const fixed = new Map<string, RouteMatch>();
  const tree = findMyWay({ maxParamLength, caseSensitive: true, ignoreTrailingSlash: false });
  for (const entry of groupByPath(routes)) {
    if (entry.pattern.includes('/:')) tree.on('GET', entry.pattern, noop, entry);
    else fixed.set(entry.pattern, { entry, params: NO_PARAMS });
  }
  return {
    match: (target) => {
      const known = fixed.get(target.path);
      if (known !== undefined) return known;
      const found = tree.find('GET', target.routable);
      if (found === null) return null;
      const params = found.params as Record<string, string>;
      // The tree accepts an empty segment as a parameter.
      for (const name in params) if (params[name] === '') return null;
      return { entry: found.store as PathEntry, params };
    },
  };
}

function noop(): void {}

function groupByPath(routes: readonly CompiledRoute[]): PathEntry[] {
  const paths = new Map<string, Map<string, CompiledRoute>>();
  for (const compiled of routes) {
    const { method, path } = compiled.route;
    const methods = paths.get(path) ?? new Map<string, CompiledRoute>();
    methods.set(method, compiled);
    // HEAD is supported wherever GET is.
    if (method === 'GET' && !methods.has('HEAD')) methods.set('HEAD', compiled);
    paths.set(path, methods);
  }
  return [...paths].map(([pattern, methods]) => ({
    pattern,
    methods,
    allow: [...methods.keys(), 'OPTIONS'].join(', '),
  }));
}

/** A request target, split but not yet matched. */
export interface RequestTarget {
  /** Percent-decoded, without a trailing slash; key of the static table. */
  readonly path: string;
  /** The path with every segment encoded again: the router never sees a decoded `?` or `%`. */
  readonly routable: string;
  /** Raw query text without `?`. */
  readonly query: string;
  /** False if an escape is broken, or a segment contains a decoded slash or control character. */
  readonly ok: boolean;
}

const PLAIN = /^[A-Za-z0-9\-._~/:@!$&'()*+,;=]*$/;
const ABSOLUTE = /^https?:\/\/[^/?]*/i;
// biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern searches for control characters.
const FORBIDDEN = /[\u0000-\u001f\u007f/]/;

/**
 * Splits a raw target at its first `?`. `new URL` is not used: a target that starts with `//` would replace the host. An
 * absolute-form target loses its origin. One trailing slash is dropped; inner double slashes stay.
 */
export function parseRequestTarget(raw: string): RequestTarget {
  const target = raw.charCodeAt(0) === 0x2f ? raw : raw.replace(ABSOLUTE, '');
  const mark = target.indexOf('?');
  const query = mark < 0 ? '' : target.slice(mark + 1);
  let path = mark < 0 ? target : target.slice(0, mark);
  if (path === '') path = '/';
  if (path.length > 1 && path.charCodeAt(path.length - 1) === 0x2f) path = path.slice(0, -1);
  if (PLAIN.test(path)) return { path, routable: path, query, ok: true };
  return decodePath(path, query);
}

function decodePath(path: string, query: string): RequestTarget {
  const segments: string[] = [];
  for (const raw of path.split('/')) {
    const segment = decodeSegment(raw);
    if (segment === null) return { path, routable: path, query, ok: false };
    segments.push(segment);
  }
  return { path: segments.join('/'), routable: segments.map(encodeURIComponent).join('/'), query, ok: true };
}

function decodeSegment(raw: string): string | null {
  // Raw bytes above 127 are illegal in a target: clients must encode them.
  for (let i = 0; i < raw.length; i += 1) if (raw.charCodeAt(i) > 0x7e) return null;
  try {
    const segment = decodeURIComponent(raw);
    return FORBIDDEN.test(segment) ? null : segment;
  } catch {
    return null;
  }
}

/** A route with all parts that can be prepared before its first request. */
export interface CompiledRoute {
  readonly route: Route;
  readonly checkParams: ValueCheck | null;
  readonly checkQuery: ValueCheck | null;
  readonly checkBody: ValueCheck | null;
  readonly queryKinds: ReadonlyMap<string, QueryKind> | null;
  readonly bodyLimitBytes: number;
  readonly timeoutMs: number;
  /** The items for the gate. */
  readonly items: readonly GateItem[];
  readonly meter: RouteMeter;
}

export interface CompileLimits {
  readonly bodyLimitBytes: number;
  readonly handlerTimeoutMs: number;
}

export function compileRoute(
  route: Route,
  limits: CompileLimits,
  validator: Validator,
  meter: HttpMeter,
): CompiledRoute {
  return {
    route,
    checkParams: route.params === undefined ? null : validator.compile(route.params, 'path'),
    checkQuery: route.query === undefined ? null : validator.compile(route.query, 'query'),
    checkBody: compileBody(route, validator),
    queryKinds: route.query === undefined ? null : queryKinds(route.query.properties),
    get bodyLimitBytes() {
      return route.bodyLimitBytes ?? limits.bodyLimitBytes;
    },
    get timeoutMs() {
      return route.timeoutMs ?? limits.handlerTimeoutMs;
    },
    items: [{ name: route.path, price: route.price, permission: route.permission }],
    meter: meter.route(route.method, route.path),
  };
}

/** The check of a body. A route with its own errors throws them. */
function compileBody({ body, explain }: Route, validator: Validator): ValueCheck | null {
  if (body === undefined) return null;
  const check = validator.compile(body, 'body');
  if (explain === undefined) return check;
  return (value) => {
    const problem = check(value);
    if (problem !== null) explain(value);
    return problem;
  };
}
