import type { Readable } from 'node:stream';
import { stringify } from '../../lib/json.ts';
import type { Deadlines } from '../calls/deadlines.ts';
import { type Fault, faultOf } from '../calls/fault.ts';
import { HandlerContext } from '../calls/handler-context.ts';
import { isPromise } from '../calls/is-promise.ts';
import { LazySignal } from '../calls/lazy-signal.ts';
import { type CallContext, JsonText, RpcError, type RpcFallback } from '../plugin.ts';
import { rpcErrorText, rpcResultText } from './envelope.ts';
import type { LocalMethod } from './methods.ts';
import type { CallSpan } from './scan.ts';

/** The answer to one call. */
export interface Executed {
  /** HTTP status when the call stands alone. */
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Buffer | Readable;
  readonly charged: boolean;
  readonly ok: boolean;
}

const NO_HEADERS: Readonly<Record<string, string>> = {};

/** An answer for a failure. Notifications have no id; where they must be answered at all it is null. */
export function failed(fault: Fault, id: string | undefined, status = fault.rpc.status): Executed {
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

/** Runs a method of a plugin within its deadline. Never throws. */
export async function executeLocal(
  local: LocalMethod,
  body: Buffer,
  call: CallSpan,
  context: CallContext,
  deadlines: Deadlines,
  defaultTimeoutMs: number,
): Promise<Executed> {
  const { name, handler, timeoutMs = defaultTimeoutMs } = local.method;
  try {
    const params = readParams(local, body, call);
    const lazy = new LazySignal(context);
    const answer = handler(Object.assign(new HandlerContext(context, lazy), { method: name, params }));
    const value = isPromise(answer) ? await within(answer, timeoutMs, name, lazy, deadlines) : answer;
    const result = value instanceof JsonText ? value.text : stringify(value);
    const text = rpcResultText(result, call.id ?? 'null');
    return { status: 200, headers: NO_HEADERS, body: text, charged: true, ok: true };
  } catch (error) {
    const fault = faultOf(error, context.requestId);
    if (fault.unexpected) context.log.error({ err: error, method: name }, 'a JSON-RPC method failed');
    return failed(fault, call.id, local.method.errorStatus);
  }
}

/** Waits for a handler up to its deadline; then its signal aborts and whatever it still answers is ignored. */
function within(
  answer: Promise<unknown>,
  timeoutMs: number,
  name: string,
  lazy: LazySignal,
  deadlines: Deadlines,
): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const cancel = deadlines.watch(timeoutMs, () => {
      // First, because a handler that ends at its signal must not be the one that answers.
      reject(new RpcError('timeout', { details: `${name} took too long` }));
      lazy.abort('the time of the call is up');
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

/** Hands a call to the fallback with the bytes as they came. Never throws. */
export async function executeForward(
  fallback: RpcFallback,
  method: string,
  body: Buffer,
  call: CallSpan,
  context: CallContext,
  inBatch: boolean,
): Promise<Executed> {
  const offset = inBatch ? call.start : 0;
  try {
    const reply = await fallback.forward(
      Object.assign(new HandlerContext(context), {
        method,
        body: inBatch ? body.subarray(call.start, call.end) : body,
        params: call.params === null ? null : { start: call.params.start - offset, end: call.params.end - offset },
        id: call.id,
        inBatch,
      }),
    );
    return {
      status: reply.status,
      headers: reply.headers ?? NO_HEADERS,
      body: reply.body,
      charged: reply.answered,
      ok: reply.answered,
    };
  } catch (error) {
    const fault = faultOf(error, context.requestId);
    if (fault.unexpected) context.log.error({ err: error, method }, 'a forwarded JSON-RPC call failed');
    return failed(fault, call.id);
  }
}

function readParams(local: LocalMethod, body: Buffer, call: CallSpan): unknown {
  const given = call.params === null ? null : paramsValue(body, call);
  const params = given === null ? local.absent() : given;
  if (typeof params !== 'object' && call.params !== null)
    throw new RpcError('invalidParams', { details: 'params must be an object or an array' });
  const problem = local.check(params);
  if (problem !== null) throw new RpcError('invalidParams', { details: problem });
  return params;
}

/** The parsed `params` of a call, undefined when it has none. */
export function paramsValue(body: Buffer, call: CallSpan): unknown {
  if (call.params === null) return undefined;
  return JSON.parse(body.toString('utf8', call.params.start, call.params.end)) as unknown;
}
