import type { GateItem } from '../plugin/host.ts';
import type { Route } from '../plugin/plugin.ts';
import type { Check, Validator } from './calls/validation.ts';
import type { HttpMeter, RouteMeter } from './meter.ts';
import { type QueryKind, queryKinds } from './query.ts';

/** A route with everything that can be prepared before its first request. */
export interface CompiledRoute {
  readonly route: Route;
  readonly checkParams: Check | null;
  readonly checkQuery: Check | null;
  readonly checkBody: Check | null;
  readonly queryKinds: ReadonlyMap<string, QueryKind> | null;
  readonly bodyLimitBytes: number;
  readonly timeoutMs: number;
  /** What the gate is asked. */
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
    checkBody: route.body === undefined ? null : validator.compile(route.body, 'body'),
    queryKinds: route.query === undefined ? null : queryKinds(route.query.properties),
    bodyLimitBytes: route.bodyLimitBytes ?? limits.bodyLimitBytes,
    timeoutMs: route.timeoutMs ?? limits.handlerTimeoutMs,
    items: [{ name: route.path, price: route.price, permission: route.permission }],
    meter: meter.route(route.method, route.path),
  };
}
