import { RpcError } from '../../src/kernel/plugin.ts';
import { objectMembers } from '../../src/lib/json-members.ts';
import { isPlainObject } from '../../src/lib/plain-object.ts';

/** A JSON-RPC call. */
export interface SenderCall {
  readonly method: string;
  readonly params: unknown;
  /** Raw JSON, or null when absent. */
  readonly paramsText: string | null;
  /** Raw JSON; undefined for a notification. */
  readonly idText: string | undefined;
}

export type ParsedBody =
  | { readonly kind: 'call'; readonly call: SenderCall }
  | { readonly kind: 'error'; readonly error: RpcError; readonly idText: string };

const BYTE_ORDER_MARK = '\ufeff';

/** Reads the body of a single call. */
export function parseBody(received: Buffer): ParsedBody {
  const text = received.toString('utf8');
  const body = text.startsWith(BYTE_ORDER_MARK) ? received.subarray(3) : received;
  const invalid = (details: string, idText = 'null'): ParsedBody => ({
    kind: 'error',
    error: new RpcError('invalidRequest', { details }),
    idText,
  });
  let value: unknown;
  try {
    value = JSON.parse(body.toString('utf8'));
  } catch {
    return { kind: 'error', error: new RpcError('parse'), idText: 'null' };
  }
  if (Array.isArray(value)) return invalid('batches are not taken here');
  const members = isPlainObject(value) ? objectMembers(body) : null;
  if (!isPlainObject(value) || members === null) return invalid('the body is not an object');
  if (new Set(members.map(({ name }) => name)).size !== members.length) return invalid('a member occurs twice');
  const raw = (name: string) => {
    const member = members.find((other) => other.name === name);
    return member === undefined ? undefined : body.toString('utf8', member.start, member.end);
  };
  const { id, method, params } = value;
  if (!(id === undefined || id === null || typeof id === 'string' || typeof id === 'number')) {
    return invalid('id has to be a string, a number or null');
  }
  const idText = raw('id');
  if (value['jsonrpc'] !== '2.0') return invalid('jsonrpc has to be "2.0"', idText);
  if (typeof method !== 'string') return invalid('method has to be a string', idText);
  return { kind: 'call', call: { method, params, paramsText: raw('params') ?? null, idText } };
}

export const resultReply = (idText: string, resultText: string): string =>
  `{"jsonrpc":"2.0","result":${resultText},"id":${idText}}`;

/** `error` is an error of ours or the raw error object of an upstream. */
export function errorReply(idText: string, error: RpcError | string): string {
  return `{"jsonrpc":"2.0","error":${typeof error === 'string' ? error : errorObject(error)},"id":${idText}}`;
}

function errorObject({ rpcCode, message, details }: RpcError): string {
  return JSON.stringify({ code: rpcCode, message, ...(details === undefined ? {} : { data: { details } }) });
}
