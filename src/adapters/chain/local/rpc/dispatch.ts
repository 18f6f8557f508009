import type { CodedError } from '../../../../lib/coded-error.ts';
import type { LocalNode, Methods } from './node.ts';
import { RPC, type RpcErrorObject, rpcError, toErrorObject } from './rpc-error.ts';

export interface RpcRequest {
  readonly id: unknown;
  readonly method: string;
  readonly params: readonly unknown[];
}

export type RpcResponse = { readonly jsonrpc: '2.0'; readonly id: unknown } & (
  | { readonly result: unknown }
  | { readonly error: RpcErrorObject }
);

/** Checks the form of one request. Throws -32600. */
export function readRequest(value: unknown): RpcRequest {
  const { jsonrpc, method, params, id } = (value ?? {}) as Record<string, unknown>;
  const badParams = params !== undefined && params !== null && !Array.isArray(params);
  if (typeof value !== 'object' || jsonrpc !== '2.0' || typeof method !== 'string') {
    throw rpcError(RPC.invalidRequest, 'Invalid request');
  }
  if (badParams) throw rpcError(RPC.invalidParams, 'Invalid params: expected a list');
  return { id: id ?? null, method, params: (params ?? []) as readonly unknown[] };
}

/** Answers one request; nothing it throws leaves it. */
export function answer(node: LocalNode, methods: Methods, request: RpcRequest): RpcResponse {
  const { id } = request;
  try {
    const method = Object.hasOwn(methods, request.method) ? methods[request.method] : undefined;
    if (method === undefined) throw rpcError(RPC.methodNotFound, 'Method not found');
    return { jsonrpc: '2.0', id, result: method(node, request.params) };
  } catch (error) {
    return failure(id, error);
  }
}

export function failure(id: unknown, error: unknown): RpcResponse {
  return { jsonrpc: '2.0', id, error: toErrorObject(error) };
}

/** The id of a request whose form is wrong, as far as it has one. */
export function idOf(value: unknown): unknown {
  const id = (value as { id?: unknown } | null)?.id;
  return typeof id === 'string' || typeof id === 'number' ? id : null;
}

export function parseError(): CodedError {
  return rpcError(RPC.parse, 'Parse error');
}
