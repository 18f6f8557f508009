import { STATUS_CODES } from 'node:http';
import type { Fault } from '../calls/fault.ts';
import type { ErrorShape } from '../plugin.ts';
import { rpcErrorText } from '../rpc/envelope.ts';
import { JSON_TYPE } from './headers.ts';

/** An error as it leaves: every refusal and failure of the HTTP front is written here. */
export interface ErrorAnswer {
  readonly status: number;
  readonly contentType: string;
  readonly body: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** `rpcId` is the raw JSON text of the id where it is known. */
export function errorAnswer(fault: Fault, shape: ErrorShape, rpcId = 'null'): ErrorAnswer {
  const retry: Record<string, string> =
    fault.retryAfterS === undefined ? {} : { 'Retry-After': String(Math.max(1, Math.ceil(fault.retryAfterS))) };
  const headers = { ...fault.headers, ...retry };
  if (shape === 'text')
    return { status: fault.status, contentType: 'text/plain; charset=utf-8', body: textBody(fault), headers };
  if (shape === 'rpc')
    return { status: fault.rpc.status, contentType: JSON_TYPE, body: rpcErrorText(fault.rpc, rpcId), headers };
  const value = shape === 'admin' ? adminBody(fault) : shape === 'wallet' ? walletBody(fault) : plainBody(fault);
  return { status: fault.status, contentType: JSON_TYPE, body: JSON.stringify(value), headers };
}

/** The shape of answers to paths that no route owns. */
export function shapeOfPath(path: string): ErrorShape {
  if (path === '/v0/admin' || path.startsWith('/v0/admin/')) return 'admin';
  if (path === '/v1/wallet' || path.startsWith('/v1/wallet/')) return 'wallet';
  return 'plain';
}

function textBody(fault: Fault): string {
  return fault.status === 503 ? 'service unavailable' : fault.message;
}

/** One sentence has to do: where `message` only names the kind, the sentence is in `details`. */
function plainBody(fault: Fault): object {
  const { status, message, details } = fault;
  if (details === undefined || status > 403 || status === 401) return { error: message, code: status };
  return { error: status === 403 ? details : `${message}: ${details}`, code: status };
}

function walletBody(fault: Fault): object {
  const { status, message, details } = fault;
  return details === undefined ? { error: message, code: status } : { error: message, code: status, details };
}

function adminBody(fault: Fault): object {
  return { statusCode: fault.status, message: adminMessage(fault), error: STATUS_CODES[fault.status] ?? 'Error' };
}

function adminMessage(fault: Fault): string {
  const { refusal, status } = fault;
  if (refusal === 'no-key' || refusal === 'bad-key') return 'Missing or invalid API key';
  if (refusal === 'rate') return 'Too many requests: at most 5 per second';
  if (status === 500) return 'Internal server error';
  if (status === 404 && fault.message === 'invalid path') return 'Invalid path';
  return (status === 403 || status === 400) && fault.details !== undefined ? fault.details : fault.message;
}
