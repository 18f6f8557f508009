import { networkOf } from '../../src/lib/cidr.ts';
import { isPlainObject } from '../../src/lib/json.ts';
import { objectMembers } from '../../src/lib/json-members.ts';
import { createLru } from '../../src/lib/lru.ts';
import { type CallContext, type Clock, RpcError } from '../../src/plugin/plugin.ts';

/** A JSON-RPC call. */
export interface SenderCall {
  readonly method: string;
  readonly params: unknown;
  /** Raw JSON, or null when absent. */
  readonly paramsText: string | null;
  /** Raw JSON; undefined for a notification. */
  readonly idText: string | undefined;
}

type ParsedBody =
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

const ID =
  /^\s*\{(?:\s*"(?:jsonrpc|method)"\s*:\s*"[^"\\]{0,64}"\s*,){0,2}\s*"id"\s*:\s*("[^"\\]{0,128}"|-?\d{1,20}|null)\s*[,}]/;

/** The id of a call whose body is not read; `null` where it does not stand at its beginning, before anything that would have to be read. */
export function idAtHand(received: Buffer): string {
  return ID.exec(received.toString('utf8', 0, 512))?.[1] ?? 'null';
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

/** Token buckets, one per key or, without a key, per client address (IPv6: /64). */
interface Rate {
  /** Takes a token or throws -32005 with the time to wait. */
  take(context: CallContext): void;
}

const MAX_BUCKETS = 50_000;

export function createRate(clock: Clock, perSecond: number, burstFactor: number): Rate {
  const capacity = perSecond * burstFactor;
  // Its room is taken at once: only when there is a call at all.
  const buckets = createLru<string, { tokens: number; at: number }>({ max: MAX_BUCKETS });
  return {
    take({ caller, remoteAddress }) {
      const name = caller?.keyId ?? ` ${networkOf(remoteAddress)}`;
      const now = clock.monotonic();
      const bucket = buckets.get(name) ?? { tokens: capacity, at: now };
      bucket.tokens = Math.min(capacity, bucket.tokens + ((now - bucket.at) / 1000) * perSecond);
      bucket.at = now;
      buckets.set(name, bucket);
      if (bucket.tokens < 1) {
        throw new RpcError('tooManyRequests', { retryAfterS: Math.max(1, Math.ceil((1 - bucket.tokens) / perSecond)) });
      }
      bucket.tokens -= 1;
    },
  };
}
