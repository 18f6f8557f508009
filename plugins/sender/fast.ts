import type { TSchema } from '@sinclair/typebox';
import { networkOf } from '../../src/lib/cidr.ts';
import { isPlainObject } from '../../src/lib/json.ts';
import { objectMembers } from '../../src/lib/json-members.ts';
import { createLru } from '../../src/lib/lru.ts';
import {
  type CallContext,
  type Clock,
  defineRoute,
  type Metrics,
  type Reply,
  type Route,
  RpcError,
  Type,
  type UpstreamPool,
} from '../../src/plugin/plugin.ts';
import type { RoutedAnswer } from '../../src/ports/send-routes.ts';
import { broadcast, type Protection, type Rebroadcast, sendBody } from './broadcast.ts';
import type { SenderConfig } from './config.ts';
import type { Bundles } from './routes.ts';
import { largestTip, readBundleParams, readSendParams, type SignedTransaction } from './transaction.ts';

export interface FastParts {
  readonly config: SenderConfig;
  /** Null when no upstream is configured. */
  readonly pool: UpstreamPool | null;
  /** Null when no bundle server is configured. */
  readonly bundles: Bundles | null;
  readonly protection: Protection;
  readonly clock: Clock;
  readonly metrics: Metrics;
  /** Null when transactions are sent once. */
  readonly rebroadcast: Rebroadcast | null;
}

/** Query parameters of a call. */
interface Wishes {
  readonly swqosOnly: boolean;
  readonly mevProtect: boolean;
}

type Outcome = RoutedAnswer & { readonly headers: Readonly<Record<string, string>> };

const NO_HEADERS = {};
/** Five transactions of the largest size (4,096 bytes) in base64, and the call around them. */
const MAX_BODY_BYTES = 32_768;

const envelope = Type.Object({ jsonrpc: Type.Literal('2.0'), id: Type.Unknown() }, { additionalProperties: true });

const callOf = (method: string, params: TSchema) =>
  Type.Object({
    jsonrpc: Type.Literal('2.0'),
    id: Type.Optional(Type.Union([Type.String(), Type.Number(), Type.Null()])),
    method: Type.Literal(method),
    params,
  });
const sendOptions = Type.Object({
  encoding: Type.Optional(Type.Union([Type.Literal('base58'), Type.Literal('base64')])),
  skipPreflight: Type.Optional(Type.Boolean()),
  maxRetries: Type.Optional(Type.Integer({ minimum: 0 })),
});
const fastBody = Type.Union([
  callOf('sendTransaction', Type.Array(Type.Union([Type.String(), sendOptions]), { minItems: 1, maxItems: 2 })),
  callOf(
    'sendBundle',
    Type.Array(Type.Union([Type.Array(Type.String(), { maxItems: 5 }), sendOptions]), { minItems: 2 }),
  ),
]);

export function createFastRoute(parts: FastParts): Route {
  const { config } = parts;
  const rate = createRate(parts.clock, config.ratePerSecond, config.burstFactor);
  const calls = parts.metrics.counter('calls_total', 'calls of /fast by method and outcome', ['method', 'outcome']);

  /** Raw JSON of the result, or the raw error object of an upstream. Throws RpcError. */
  async function run(call: SenderCall, context: CallContext, wishes: Wishes): Promise<Outcome> {
    if (config.requireKey && context.caller === null) throw new RpcError('unauthorized');
    const isBundle = call.method === 'sendBundle' && parts.bundles !== null;
    if (!isBundle && call.method !== 'sendTransaction') throw new RpcError('methodNotFound');
    if (isBundle) return sendBundle(parts.bundles!, call, context, wishes);
    const transaction = readSendParams(call.params);
    demandTip([transaction], wishes.swqosOnly);
    if (parts.pool === null) throw new RpcError('unavailable');
    const kept = wishes.mevProtect ? parts.protection.targets() : null;
    const headers = wishes.mevProtect && kept === null ? parts.protection.missing : NO_HEADERS;
    const targets = kept ?? { pool: parts.pool, only: null };
    if (parts.rebroadcast?.hasRoom(transaction.peek.signature) === false) {
      throw new RpcError('unavailable', { details: 'too many transactions wait to be seen', retryAfterS: 1 });
    }
    const body = sendBody(transaction.wire, { maxRetries: 0, ...transaction.options });
    const outcome = await broadcast(targets, body, config.timeoutMs, context.tenant);
    if (outcome.kind === 'refused') return { errorText: outcome.errorText, headers };
    parts.rebroadcast?.add(transaction, targets);
    return { resultText: JSON.stringify(transaction.peek.signature), headers };
  }

  async function sendBundle(
    bundles: Bundles,
    call: SenderCall,
    context: CallContext,
    wishes: Wishes,
  ): Promise<Outcome> {
    demandTip(readBundleParams(call.params), wishes.swqosOnly);
    const targets = wishes.mevProtect ? bundles.protection.targets() : null;
    const headers = wishes.mevProtect && targets === null ? bundles.protection.missing : NO_HEADERS;
    return { ...(await bundles.ask('sendBundle', call.params, call.paramsText ?? '[]', context, targets)), headers };
  }

  function demandTip(transactions: readonly SignedTransaction[], swqosOnly: boolean): void {
    if (!config.requireTip) return;
    const least = swqosOnly ? config.minTipLamportsSwqos : config.minTipLamports;
    if (transactions.some(({ peek }) => largestTip(peek, config.tipAccounts) >= BigInt(Math.max(1, least)))) return;
    const details = `a transfer of at least ${least} lamports to one of ${config.tipAccounts.join(', ')} is needed`;
    throw new RpcError('invalidParams', { details });
  }

  async function answer(context: CallContext & { readonly body: unknown }, wishes: Wishes): Promise<Reply> {
    const body = context.body as Buffer;
    try {
      // Before parsing: a refused call costs a token as well.
      rate.take(context);
    } catch (error) {
      if (!(error instanceof RpcError)) throw error;
      calls.with('other', String(error.rpcCode)).add();
      return reply(error.status, errorReply(idAtHand(body), error), error.retryAfterS);
    }
    const parsed = parseBody(body);
    if (parsed.kind === 'error') return reply(parsed.error.status, errorReply(parsed.idText, parsed.error));
    const { call } = parsed;
    const count = (outcome: string) => calls.with(methodLabel(call.method), outcome).add();
    try {
      const outcome = await run(call, context, wishes);
      const refused = 'errorText' in outcome;
      count(refused ? 'refused' : 'accepted');
      if (call.idText === undefined) return { status: 204, headers: outcome.headers };
      const text = refused ? errorReply(call.idText, outcome.errorText) : resultReply(call.idText, outcome.resultText);
      return reply(200, text, undefined, outcome.headers);
    } catch (error) {
      if (!(error instanceof RpcError)) throw error;
      count(String(error.rpcCode));
      if (call.idText === undefined && error.status === 200) return { status: 204 };
      const { status, retryAfterS } = error;
      return reply(status, errorReply(call.idText ?? 'null', error), retryAfterS ?? (status === 503 ? 1 : undefined));
    }
  }

  return defineRoute({
    method: 'POST',
    path: '/fast',
    summary: 'Sends a transaction (sendTransaction) or a bundle (sendBundle) to all send upstreams at once',
    tag: 'sender',
    auth: 'optional-key',
    errors: 'rpc',
    price: { product: 'other', credits: 0, groups: ['sender'] },
    query: Type.Object({
      swqos_only: Type.Optional(Type.Boolean({ description: 'asks for the lower tip only' })),
      // Read by the handler, because a wrong value is an error of the HTTP request, not of the call: 400.
      'mev-protect': Type.Optional(
        Type.String({ description: 'true: only to upstreams that keep it from validators linked to sandwich attacks' }),
      ),
      'rebate-address': Type.Optional(Type.String({ description: 'accepted, without effect' })),
    }),
    rawBody: true,
    bodyLimitBytes: MAX_BODY_BYTES,
    documented: { body: fastBody },
    replies: {
      200: envelope,
      204: Type.Undefined({ description: 'The call was a notification: it has no id' }),
      400: envelope,
      401: envelope,
      429: envelope,
      503: envelope,
      504: envelope,
    },
    handler(request) {
      let mevProtect: boolean;
      try {
        mevProtect = parts.protection.wanted(request.requestQuery?.('mev-protect') ?? []);
      } catch (error) {
        if (!(error instanceof RpcError)) throw error;
        return reply(400, errorReply('null', error));
      }
      return answer(request, { swqosOnly: request.query.swqos_only === true, mevProtect });
    },
  });
}

/** Method names come from clients and must not become labels. */
const methodLabel = (method: string) => (method === 'sendTransaction' || method === 'sendBundle' ? method : 'other');

function reply(status: number, text: string, retryAfterS?: number, more: Outcome['headers'] = NO_HEADERS): Reply {
  const headers = retryAfterS === undefined ? more : { ...more, 'retry-after': String(retryAfterS) };
  return { status, headers, jsonBytes: Buffer.from(text) };
}

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
function parseBody(received: Buffer): ParsedBody {
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

/** The id of a call whose body is not parsed; `null` unless it comes first in the body. */
function idAtHand(received: Buffer): string {
  return ID.exec(received.toString('utf8', 0, 512))?.[1] ?? 'null';
}

const resultReply = (idText: string, resultText: string): string =>
  `{"jsonrpc":"2.0","result":${resultText},"id":${idText}}`;

/** `error`: an error of ours or the raw error object of an upstream. */
function errorReply(idText: string, error: RpcError | string): string {
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
  // The LRU allocates on creation, so it is created with the first call.
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
