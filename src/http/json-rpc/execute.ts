import type { Readable } from 'node:stream';
import type { CoreConfig } from '../../config/core.ts';
import { parseExact, stringify } from '../../lib/json.ts';
import { rpcErrorReply, rpcRequestHead, rpcResultBytes, rpcResultReply } from '../../lib/json-rpc.ts';
import { derived } from '../../lib/reloadable.ts';
import type { RpcBatchSeat, RpcFallback, RpcForward, RpcForwardReply, SocketCalls } from '../../plugin/host.ts';
import {
  type CallContext,
  JsonBytes,
  JsonText,
  type Price,
  RPC_CODES,
  type RpcCall,
  RpcError,
  type RpcMethod,
} from '../../plugin/plugin.ts';
import { LazySignal } from '../../runtime/lazy-signal.ts';
import type { Deadlines } from '../../runtime/waiting.ts';
import { isPromise } from '../../runtime/waiting.ts';
import { type Fault, faultOf, type RpcFault } from '../errors.ts';
import { HandlerContext } from '../handler-context.ts';
import { createValidator, type Validator, type ValueCheck } from '../validation.ts';
import type { CallSpan } from './scan.ts';

/** The answer to one call. */
export interface Executed {
  /** HTTP status of a single call. */
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Buffer | Readable;
  readonly charged: boolean;
  /** Instead of the price of the call. */
  readonly credits?: number | undefined;
  /** The answer is a result. Of an answer that is passed on as it arrives it is assumed. */
  readonly ok: boolean;
}

const NO_HEADERS: Readonly<Record<string, string>> = {};
/** Extras of a result that is no `JsonText`. */
const NO_EXTRAS: Pick<JsonText, 'credits' | 'headers'> = { credits: undefined, headers: undefined };

/** The answer for a failure. Notifications have no id; if they must be answered, it is null. */
export function failedCall(fault: Fault, id: string | undefined, status = fault.rpc.status): Executed {
  const headers =
    fault.retryAfterS === undefined ? fault.headers : { ...fault.headers, 'Retry-After': String(fault.retryAfterS) };
  return {
    status,
    headers,
    body: rpcErrorText(fault.rpc, id ?? 'null'),
    charged: false,
    ok: false,
  };
}

/** Runs a method of a plugin within its deadline. Never throws or rejects, and makes no promise for a handler that makes none. */
export function executeLocal(
  local: LocalMethod,
  body: Buffer,
  call: CallSpan,
  context: CallContext,
  deadlines: Deadlines,
  defaultTimeoutMs: number,
): Executed | Promise<Executed> {
  const { name, handler, timeoutMs = defaultTimeoutMs } = local.method;
  try {
    const lazy = new LazySignal(context);
    const answer = handler(new LocalCall(context, lazy, name, readParams(local, body, call)));
    if (!isPromise(answer)) return succeeded(answer, call);
    return within(answer, timeoutMs, name, lazy, deadlines)
      .then((value) => succeeded(value, call))
      .catch((error: unknown) => failedLocal(local, call, context, error));
  } catch (error) {
    return failedLocal(local, call, context, error);
  }
}

function succeeded(value: unknown, { id = 'null' }: CallSpan): Executed {
  const { credits, headers = NO_HEADERS } = value instanceof JsonText ? value : NO_EXTRAS;
  const body =
    value instanceof JsonBytes
      ? rpcResultBytes(value.pieces, id)
      : rpcResultReply(value instanceof JsonText ? value.text : stringify(value), id);
  return { status: 200, headers, body, charged: true, credits, ok: true };
}

function failedLocal({ method }: LocalMethod, { id }: CallSpan, context: CallContext, error: unknown): Executed {
  const fault = faultOf(error, context.requestId);
  if (fault.unexpected) context.log.error({ err: error, method: method.name }, 'a JSON-RPC method failed');
  return failedCall(fault, id, method.errorStatus);
}

/** A class, because there is one for each call. */
class LocalCall extends HandlerContext implements RpcCall {
  readonly method: string;
  readonly params: unknown;

  constructor(context: CallContext, lazy: LazySignal, method: string, params: unknown) {
    super(context, lazy);
    this.method = method;
    this.params = params;
  }
}

/** Waits for a handler up to its deadline; then its signal aborts and a later answer is ignored. */
function within(
  answer: Promise<unknown>,
  timeoutMs: number,
  name: string,
  lazy: LazySignal,
  deadlines: Deadlines,
): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const cancel = deadlines.watch(timeoutMs, () => {
      // Reject first: a handler that ends at its signal must not determine the answer.
      reject(new RpcError('timeout', { details: `${name} took too long` }));
      lazy.abort('the deadline of the call has passed');
      lazy.release();
    });
    const done = () => {
      cancel();
      lazy.release();
    };
    answer.then(
      (value) => {
        done();
        resolve(value);
      },
      (error: unknown) => {
        done();
        reject(error);
      },
    );
  });
}

/** Answers a call from what the fallback has in memory, else forwards it with a request object that we write. Never throws or rejects. */
export function executeForward(
  fallback: RpcFallback,
  method: string,
  body: Buffer,
  call: CallSpan,
  context: CallContext,
  seat: RpcBatchSeat | null,
): Executed | Promise<Executed> {
  const { params, id } = call;
  const fail = (error: unknown): Executed => {
    const fault = faultOf(error, context.requestId);
    if (fault.unexpected) context.log.error({ err: error, method }, 'a forwarded JSON-RPC call failed');
    return failedCall(fault, id);
  };
  try {
    const reply = id === undefined ? null : (fallback.atHand?.({ method, body, params, id }) ?? null);
    if (reply !== null) return forwarded(reply);
    return fallback
      .forward(new ForwardedCall(context, method, body, call, seat))
      .then(forwarded)
      .catch(fail);
  } catch (error) {
    return fail(error);
  }
}

function forwarded({ status, headers = NO_HEADERS, body, answered }: RpcForwardReply): Executed {
  return { status, headers, body, charged: answered, ok: answered && !isErrorText(body) };
}

/** Bytes of an answer in which its first member after version and id begins. */
const HEAD_BYTES = 160;

/** Whether an answer that an upstream wrote is an error, as far as its first bytes show it. */
export function isErrorText(body: string | Buffer | Readable | null): boolean {
  const head =
    typeof body === 'string'
      ? body.slice(0, HEAD_BYTES)
      : Buffer.isBuffer(body)
        ? body.toString('latin1', 0, HEAD_BYTES)
        : '';
  const error = head.indexOf('"error":');
  if (error === -1) return false;
  const result = head.indexOf('"result":');
  return result === -1 || error < result;
}

const PARAMS = ',"params":';

/**
 * The forwarded request object has only the four members of the specification, so that no other parser can see another method or other
 * parameters than those that were checked. The values stay unchanged. A class, because there is one for each call that is passed on.
 */
class ForwardedCall extends HandlerContext implements RpcForward {
  readonly method: string;
  readonly body: Buffer;
  readonly params: RpcForward['params'];
  readonly id: string | undefined;
  readonly seat: RpcBatchSeat | null;

  constructor(
    context: CallContext,
    method: string,
    given: Buffer,
    { id, params }: CallSpan,
    seat: RpcBatchSeat | null,
  ) {
    super(context);
    this.method = method;
    this.id = id;
    this.seat = seat;
    const head = rpcRequestHead(method, id);
    if (params === null) {
      this.body = Buffer.from(`${head}}`);
      this.params = null;
      return;
    }
    const start = Buffer.byteLength(head) + PARAMS.length;
    const end = start + params.end - params.start;
    this.body = Buffer.allocUnsafe(end + 1);
    this.body.write(head + PARAMS, 0, 'utf8');
    given.copy(this.body, start, params.start, params.end);
    this.body[end] = 0x7d;
    this.params = { start, end };
  }
}

/** Runs a subscription call of a websocket. Never throws. */
export async function executeSocket(
  calls: SocketCalls,
  method: string,
  body: Buffer,
  call: CallSpan,
  context: CallContext,
): Promise<Executed> {
  const { params: at, id = 'null' } = call;
  try {
    const paramsText = at === null ? null : body.toString('utf8', at.start, at.end);
    const outcome = await calls.run({
      method,
      paramsText,
      get params() {
        return paramsValue(body, call);
      },
    });
    const ok = 'resultText' in outcome;
    const text = ok ? rpcResultReply(outcome.resultText, id) : rpcErrorReply(outcome.errorText, id);
    return { status: 200, headers: NO_HEADERS, body: text, charged: true, ok };
  } catch (error) {
    const fault = faultOf(error, context.requestId);
    if (fault.unexpected) context.log.error({ err: error, method }, 'a subscription call failed');
    // Invalid parameters are charged: checking them is work too.
    const isCharged = fault.rpc.code === RPC_CODES.invalidParams.code && method.endsWith('Subscribe');
    return { ...failedCall(fault, id), charged: isCharged };
  }
}

function readParams(local: LocalMethod, body: Buffer, call: CallSpan): unknown {
  const given = call.params === null ? null : paramsValue(body, call, local.method.exactIntegers);
  const params = given === null ? local.absent() : given;
  if (typeof params !== 'object' && call.params !== null)
    throw new RpcError('invalidParams', { details: 'params must be an object or an array' });
  const problem = local.check(params);
  if (problem !== null) throw new RpcError('invalidParams', { details: problem });
  return params;
}

/** The parsed `params` of a call; undefined if absent. */
export function paramsValue(body: Buffer, call: CallSpan, exactIntegers = false): unknown {
  if (call.params === null) return undefined;
  const text = body.toString('utf8', call.params.start, call.params.end);
  return exactIntegers ? parseExact(text) : (JSON.parse(text) as unknown);
}

/** A whole response object for an error. */
export function rpcErrorText(fault: RpcFault, id: string): string {
  const data =
    fault.details === undefined && fault.data === undefined
      ? ''
      : `,"data":${JSON.stringify({ details: fault.details, ...fault.data })}`;
  return rpcErrorReply(`{"code":${fault.code},"message":${JSON.stringify(fault.message)}${data}}`, id);
}

/** A method of a plugin, with the compiled check of its `params`. */
interface LocalMethod {
  readonly method: RpcMethod;
  readonly check: ValueCheck;
  /** Value of absent params. */
  readonly absent: () => unknown;
}

/** Destination of a call. */
export type Destination =
  | { readonly kind: 'local'; readonly local: LocalMethod }
  | { readonly kind: 'forward'; readonly fallback: RpcFallback }
  /** A subscription call on a websocket. */
  | { readonly kind: 'socket'; readonly calls: SocketCalls }
  | { readonly kind: 'none'; readonly fault: RpcFault };

export interface MethodTable {
  /** `calls`: those of the websocket; absent over HTTP. */
  find(name: string, calls?: SocketCalls): Destination;
  /** Whether any method may be called without a key. */
  readonly hasOpen: boolean;
}

const NAME = /^[A-Za-z][A-Za-z0-9_]{0,63}$/;
const SUBSCRIPTION = /(Subscribe|Unsubscribe)$/;
const SOCKET_CALL = /^[a-z][A-Za-z0-9]{0,48}(Subscribe|Unsubscribe)$/;

/** A registered method is always answered here: the allow and deny lists apply only to forwarded methods. */
export function createMethodTable(
  methods: readonly RpcMethod[],
  fallback: RpcFallback | null,
  config: CoreConfig['rpc'],
  validator: Validator = createValidator(),
): MethodTable {
  const local = new Map<string, Destination>();
  for (const method of methods) local.set(method.name, { kind: 'local', local: compile(method, validator.compile) });
  const denied = derived(
    () => config.denyMethods,
    (names) => new Set(names),
  );
  const allowed = derived(
    () => config.allowMethods,
    (names) => (names === null ? null : new Set(names)),
  );
  const unknown = none();
  const subscription = none('Subscriptions are served over websocket only');
  const noUpstream = none('no Solana upstream is configured');
  const forward: Destination | null = fallback === null ? null : { kind: 'forward', fallback };

  return {
    hasOpen: methods.some((method) => method.auth === 'none'),
    find: (name, calls) => {
      const known = local.get(name);
      if (known !== undefined) return known;
      const isListed = !denied().has(name) && (allowed()?.has(name) ?? true);
      if (SUBSCRIPTION.test(name)) {
        if (calls === undefined) return subscription;
        // A client with a subscription may always end it.
        return SOCKET_CALL.test(name) && (isListed || name.endsWith('Unsubscribe'))
          ? { kind: 'socket', calls }
          : unknown;
      }
      if (!isListed || !NAME.test(name)) return unknown;
      return forward ?? noUpstream;
    },
  };
}

function none(details?: string): Destination {
  const error = new RpcError('methodNotFound', details === undefined ? {} : { details });
  return { kind: 'none', fault: faultOf(error, '').rpc };
}

function compile(
  method: RpcMethod,
  compileCheck: (schema: RpcMethod['params'], name: string) => ValueCheck,
): LocalMethod {
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
  if (destination.kind === 'local') {
    const { method } = destination.local;
    return method.priceOf?.(params()) ?? method.price;
  }
  if (destination.kind === 'socket') return destination.calls.price(name);
  return destination.kind === 'forward' ? destination.fallback.price(name, params) : undefined;
}
