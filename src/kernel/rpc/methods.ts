import { faultOf, type RpcFault } from '../calls/fault.ts';
import { type Check, createValidator, type Validator } from '../calls/validation.ts';
import type { CoreConfig } from '../config/core.ts';
import { type Price, RpcError, type RpcFallback, type RpcMethod } from '../plugin.ts';

/** A method that a plugin answers, with its compiled check of `params`. */
export interface LocalMethod {
  readonly method: RpcMethod;
  readonly check: Check;
  /** What absent params stand for. */
  readonly absent: () => unknown;
}

/** Where a call goes. */
export type Destination =
  | { readonly kind: 'local'; readonly local: LocalMethod }
  | { readonly kind: 'forward'; readonly fallback: RpcFallback }
  | { readonly kind: 'none'; readonly fault: RpcFault };

export interface MethodTable {
  find(name: string): Destination;
  /** Whether any method may be called without a key. */
  readonly hasOpen: boolean;
}

const NAME = /^[A-Za-z][A-Za-z0-9_]{0,63}$/;
const SUBSCRIPTION = /(Subscribe|Unsubscribe)$/;

/** A registered method is always answered here, whatever the lists say: those are about what goes upstream. */
export function createMethodTable(
  methods: readonly RpcMethod[],
  fallback: RpcFallback | null,
  config: CoreConfig['rpc'],
  validator: Validator = createValidator(),
): MethodTable {
  const local = new Map<string, Destination>();
  for (const method of methods) local.set(method.name, { kind: 'local', local: compile(method, validator.compile) });
  const denied = new Set(config.denyMethods);
  const allowed = config.allowMethods === null ? null : new Set(config.allowMethods);
  const unknown = none();
  const subscription = none('Subscriptions are served over websocket only');
  const noUpstream = none('no Solana upstream is configured');
  const forward: Destination | null = fallback === null ? null : { kind: 'forward', fallback };

  return {
    hasOpen: methods.some((method) => method.auth === 'none'),
    find: (name) => {
      const known = local.get(name);
      if (known !== undefined) return known;
      if (SUBSCRIPTION.test(name)) return subscription;
      if (denied.has(name) || (allowed !== null && !allowed.has(name)) || !NAME.test(name)) return unknown;
      return forward ?? noUpstream;
    },
  };
}

function none(details?: string): Destination {
  const error = new RpcError('methodNotFound', details === undefined ? {} : { details });
  return { kind: 'none', fault: faultOf(error, '').rpc };
}

function compile(method: RpcMethod, compileCheck: (schema: RpcMethod['params'], name: string) => Check): LocalMethod {
  const check = method.checksParams === true ? () => null : compileCheck(method.params, 'params');
  const type: unknown = method.params['type'];
  const absent = (): unknown => {
    if (type === 'array') return [];
    if (type === 'object') return {};
    return [[], {}].find((value) => check(value) === null) ?? null;
  };
  return { method, check, absent };
}

/** The admission item of a call. */
export function priceOf(destination: Destination, name: string, params: () => unknown): Price | undefined {
  if (destination.kind === 'local') return destination.local.method.price;
  return destination.kind === 'forward' ? destination.fallback.price(name, params) : undefined;
}
