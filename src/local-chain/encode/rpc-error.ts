import { CodedError } from '../../lib/coded-error.ts';

/** JSON-RPC error numbers of a Solana node. */
export const RPC = {
  blockCleanedUp: -32001,
  sendFailed: -32002,
  signatureFailed: -32003,
  blockNotAvailable: -32004,
  slotSkipped: -32007,
  unsupportedVersion: -32015,
  minContextSlot: -32016,
  filterTransactionNotFound: -32020,
  noSnapshot: -32008,
  parse: -32700,
  invalidRequest: -32600,
  methodNotFound: -32601,
  invalidParams: -32602,
  internal: -32603,
} as const;

export interface RpcErrorObject {
  readonly code: number;
  readonly message: string;
  readonly data?: unknown;
}

/** An error that a client gets as a JSON-RPC error object. */
export function rpcError(code: number, message: string, data?: unknown): CodedError {
  return new CodedError('LOCAL_RPC', message, { facts: { rpcCode: code, data } });
}

export function invalidParams(message: string): CodedError {
  return rpcError(RPC.invalidParams, message);
}

/** The error object for any error: refusals of the simulator are invalid params, the rest are internal errors. */
export function toErrorObject(error: unknown): RpcErrorObject {
  if (!(error instanceof CodedError)) {
    return { code: RPC.internal, message: `Internal error: ${error instanceof Error ? error.message : String(error)}` };
  }
  if (error.code !== 'LOCAL_RPC') return { code: RPC.invalidParams, message: error.message };
  const { rpcCode, data } = error.facts;
  return { code: rpcCode as number, message: error.message, ...(data === undefined ? {} : { data }) };
}
