import type { Readable } from 'node:stream';
import { stringify } from '../../lib/json.ts';
import type { Deadlines } from '../deadlines.ts';
import { type Fault, faultOf } from '../fault.ts';
import { createLazySignal } from '../lazy-signal.ts';
import { type CallContext, JsonText, type RpcCall, RpcError, type RpcFallback } from '../plugin.ts';
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
export function failed(fault: Fault, id: string | undefined): Executed {
  const headers =
    fault.retryAfterS === undefined ? fault.headers : { ...fault.headers, 'Retry-After': String(fault.retryAfterS) };
  return {
    status: fault.rpc.status,
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
  const lazy = createLazySignal(context);
  let cancel = () => {};
  try {
    const params = readParams(local, body, call);
    const answer = local.method.handler(rpcCall(local.method.name, params, context, lazy));
    let value: unknown = answer;
    if (isPromise(answer)) {
      const expired = new Promise<never>((_, reject) => {
        cancel = deadlines.watch(local.method.timeoutMs ?? defaultTimeoutMs, () => {
          const error = new RpcError('timeout', { details: `${local.method.name} took too long` });
          // First, because a handler that ends at its signal must not be the one that answers.
          reject(error);
          lazy.abort(error);
        });
      });
      value = await Promise.race([answer, expired]);
    }
    const result = value instanceof JsonText ? value.text : stringify(value);
    const text = rpcResultText(result, call.id ?? 'null');
    return { status: 200, headers: NO_HEADERS, body: text, charged: true, ok: true };
  } catch (error) {
    const fault = faultOf(error, context.requestId);
    if (fault.unexpected) context.log.error({ err: error, method: local.method.name }, 'a JSON-RPC method failed');
    return failed(fault, call.id);
  } finally {
    cancel();
    lazy.release();
  }
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
    const reply = await fallback.forward({
      requestId: context.requestId,
      get log() {
        return context.log;
      },
      get signal() {
        return context.signal;
      },
      caller: context.caller,
      remoteAddress: context.remoteAddress,
      method,
      body: inBatch ? body.subarray(call.start, call.end) : body,
      params: call.params === null ? null : { start: call.params.start - offset, end: call.params.end - offset },
      id: call.id,
      inBatch,
    });
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

function rpcCall(
  method: string,
  params: unknown,
  context: CallContext,
  own: { readonly signal: AbortSignal },
): RpcCall {
  return {
    requestId: context.requestId,
    get log() {
      return context.log;
    },
    get signal() {
      return own.signal;
    },
    caller: context.caller,
    remoteAddress: context.remoteAddress,
    method,
    params,
  };
}

function isPromise(value: unknown): value is Promise<unknown> {
  return typeof value === 'object' && value !== null && typeof (value as { then?: unknown }).then === 'function';
}
