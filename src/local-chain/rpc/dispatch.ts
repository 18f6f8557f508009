import type { CodedError } from '../../lib/coded-error.ts';
import type { LocalNode, Methods } from './node.ts';
import { RPC, type RpcErrorObject, rpcError, toErrorObject } from './rpc-error.ts';

export interface RpcRequest {
  readonly id: unknown;
  /** A request without an id: nobody waits for an answer. */
  readonly isNotification: boolean;
  readonly method: string;
  /** A list, an object, or undefined for none. */
  readonly params: unknown;
}

export type RpcResponse = { readonly jsonrpc?: '2.0'; readonly id: unknown } & (
  | { readonly result: unknown }
  | { readonly error: RpcErrorObject }
);

const MEMBERS = new Set(['jsonrpc', 'id', 'method', 'params']);

/** Whether a body has the outer form of a call: a node takes anything else as text that it cannot parse. */
export function isCall(value: unknown): boolean {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  const { id } = value as { id?: unknown };
  return id === undefined || id === null || ['string', 'number', 'bigint'].includes(typeof id);
}

/** Checks the form of one call. Throws -32600. */
export function readRequest(value: unknown): RpcRequest {
  const call = (value ?? {}) as Record<string, unknown>;
  const { jsonrpc, method, params, id } = call;
  const badParams = params !== undefined && (typeof params !== 'object' || params === null) && params !== null;
  const known = Object.keys(call).every((key) => MEMBERS.has(key));
  const badVersion = jsonrpc !== undefined && jsonrpc !== null && jsonrpc !== '2.0';
  if (!isCall(value) || typeof method !== 'string' || badParams || !known || badVersion) {
    throw rpcError(RPC.invalidRequest, 'Invalid request');
  }
  if (jsonrpc !== '2.0') throw rpcError(RPC.invalidRequest, UNSUPPORTED_VERSION);
  return { id: id ?? null, isNotification: id === undefined, method, params: params ?? undefined };
}

const UNSUPPORTED_VERSION = 'Unsupported JSON-RPC protocol version';

/** Answers one request; nothing it throws leaves it. */
export function answer(node: LocalNode, methods: Methods, request: RpcRequest): RpcResponse {
  const { id } = request;
  try {
    const method = Object.hasOwn(methods, request.method) ? methods[request.method] : undefined;
    if (method === undefined) throw rpcError(RPC.methodNotFound, 'Method not found');
    return { jsonrpc: '2.0', result: method(node, request.params), id };
  } catch (error) {
    return failure(id, error);
  }
}

export function failure(id: unknown, thrown: unknown): RpcResponse {
  const error = toErrorObject(thrown);
  // A node that does not know the caller's version does not claim one.
  return error.message === UNSUPPORTED_VERSION ? { error, id } : { jsonrpc: '2.0', error, id };
}

/** The id of a request whose form is wrong, as far as it has one. */
export function idOf(value: unknown): unknown {
  return isCall(value) ? ((value as { id?: unknown }).id ?? null) : null;
}

export function parseError(): CodedError {
  return rpcError(RPC.parse, 'Parse error');
}
