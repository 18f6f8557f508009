import type { TSchema } from '@sinclair/typebox';
import { isPlainObject, objectMembers } from '../../src/lib/json.ts';
import { rpcErrorReply, rpcRequestOf, rpcResultReply } from '../../src/lib/json-rpc.ts';
import { createLru } from '../../src/lib/lru.ts';
import {
  type CallContext,
  type Clock,
  defineRoute,
  type Metrics,
  type Reply,
  type Route,
  RpcError,
  type Tag,
  Type,
  type UpstreamPool,
} from '../../src/plugin/plugin.ts';
import type { PassedCall, RoutedAnswer, SendRoute, SendRoutes } from '../../src/ports/upstream.ts';
import { networkOf } from '../../src/runtime/network-address.ts';
import { isBeforeSending, isMoreUseful, isOfTheNode } from '../../src/solana/node-errors.ts';
import { EXAMPLES, orNull, text } from '../../src/solana/schemas.ts';
import {
  broadcast,
  exchange,
  noAnswer,
  type Protection,
  type Rebroadcast,
  type SendOutcome,
  sendBody,
  type Targets,
} from './broadcast.ts';
import type { SenderConfig } from './config.ts';
import {
  demandSigned,
  largestTip,
  type NonceCheck,
  readBundleParams,
  readSendParams,
  type SignedTransaction,
  unsetLimits,
} from './transaction.ts';

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
  /** Whether the durable nonce of a transaction is the one of its account now; also without a durable nonce. */
  readonly isNonceCurrent: NonceCheck;
}

/** Query parameters of a call. */
interface SendOptions {
  readonly swqosOnly: boolean;
  readonly mevProtect: boolean;
}

type Outcome = RoutedAnswer & { readonly headers: Readonly<Record<string, string>> };

const NO_HEADERS = {};
/** Five transactions of the largest size (4,096 bytes) in base64, and the call around them. */
const MAX_BODY_BYTES = 32_768;

export const SENDER: Tag = { name: 'Sender', description: 'Transactions and bundles to all send upstreams at once' };

const envelope = (description: string) =>
  Type.Object(
    { jsonrpc: Type.Literal('2.0'), id: Type.Unknown({ description: 'As it was given', examples: [1] }) },
    {
      additionalProperties: true,
      description,
      examples: [{ jsonrpc: '2.0', result: EXAMPLES.signature, id: 1 }],
    },
  );
const refusal = envelope('Refused');

const WIRE = EXAMPLES.wire;
const encoding = Type.Optional(
  Type.Union([Type.Literal('base58'), Type.Literal('base64'), Type.Null()], { description: 'Default base58' }),
);
const params = (items: readonly TSchema[], example: readonly unknown[]) =>
  Type.Unsafe<unknown>({ type: 'array', items, minItems: 1, description: 'By position', examples: [example] });
const callOf = (method: string, what: string, given: TSchema) =>
  Type.Object(
    {
      jsonrpc: Type.Literal('2.0', { description: 'Version of JSON-RPC' }),
      id: Type.Optional(
        Type.Union([Type.String(), Type.Number(), Type.Null()], {
          description: 'Returned with the answer',
          examples: [1],
        }),
      ),
      method: Type.Literal(method, { description: 'Name of the method' }),
      params: given,
    },
    { description: what },
  );
const sendOptions = orNull(
  Type.Object(
    {
      encoding,
      skipPreflight: Type.Optional(
        Type.Unknown({ description: 'True: the nodes do not simulate it first', examples: [true] }),
      ),
      preflightCommitment: Type.Optional(
        Type.Unknown({ description: 'State that it is simulated on', examples: ['confirmed'] }),
      ),
      maxRetries: Type.Optional(Type.Unknown({ description: 'Repetitions of the nodes; default 0', examples: [0] })),
      minContextSlot: Type.Optional(
        Type.Unknown({ description: 'Slot that the state has to include', examples: [381_204_511] }),
      ),
    },
    { description: 'Options', examples: [{ encoding: 'base64', skipPreflight: true }] },
  ),
);
const bundleOptions = orNull(Type.Object({ encoding }, { description: 'Options', examples: [{ encoding: 'base64' }] }));
const wire = text('Signed transaction', WIRE);
/** Whether it is a signed transaction is checked when it is read. */
const fastBody = Type.Union(
  [
    callOf(
      'sendTransaction',
      'A transaction',
      params([wire, sendOptions], [WIRE, { encoding: 'base64', skipPreflight: true }]),
    ),
    callOf(
      'sendBundle',
      'A bundle, where a bundle server is configured',
      params(
        [Type.Array(wire, { minItems: 1, maxItems: 5, description: 'Transactions' }), bundleOptions],
        [[WIRE], { encoding: 'base64' }],
      ),
    ),
  ],
  {
    description: 'The call',
    examples: [
      { jsonrpc: '2.0', id: 1, method: 'sendTransaction', params: [WIRE, { encoding: 'base64', skipPreflight: true }] },
    ],
  },
);

export function createFastRoute(parts: FastParts): Route {
  const { config } = parts;
  const rate = createRate(parts.clock, config);
  const calls = parts.metrics.counter('calls_total', 'calls of /fast by method and outcome', ['method', 'outcome']);

  /** Raw JSON of the result, or the raw error object of an upstream. Throws RpcError. */
  async function run(call: SenderCall, context: CallContext, options: SendOptions): Promise<Outcome> {
    if (config.requireKey && context.caller === null) throw new RpcError('unauthorized');
    const isBundle = call.method === 'sendBundle' && parts.bundles !== null;
    if (!isBundle && call.method !== 'sendTransaction') throw new RpcError('methodNotFound');
    if (isBundle) return sendBundle(parts.bundles!, call, context, options);
    const transaction = readSendParams(call.params);
    demandTip([transaction], options.swqosOnly);
    demandSigned(transaction);
    if (parts.pool === null) throw new RpcError('unavailable');
    const kept = options.mevProtect ? parts.protection.targets() : null;
    const headers = {
      ...(options.mevProtect && kept === null ? parts.protection.missing : NO_HEADERS),
      ...warningOf([transaction]),
    };
    const targets = kept ?? { pool: parts.pool, only: null };
    const { tenant } = context;
    const place = parts.rebroadcast?.reserve(transaction.peek.signature, { tenant, hasKey: context.caller !== null });
    if (place === null)
      throw new RpcError('unavailable', { details: 'too many transactions wait to be seen', retryAfterS: 1 });
    try {
      const body = sendBody(transaction.wire, { maxRetries: 0, ...transaction.options });
      const outcome = await broadcast(targets, body, config.timeoutMs, tenant);
      if (outcome.kind === 'refused') return { errorText: outcome.errorText, headers };
      // One with another nonce can never land: a node that skips the preflight accepts it all the same.
      if (place !== undefined && (await parts.isNonceCurrent(transaction, tenant))) place.keep(transaction, targets);
      return { resultText: JSON.stringify(transaction.peek.signature), headers };
    } finally {
      place?.release();
    }
  }

  async function sendBundle(
    bundles: Bundles,
    call: SenderCall,
    context: CallContext,
    options: SendOptions,
  ): Promise<Outcome> {
    const transactions = readBundleParams(call.params);
    demandTip(transactions, options.swqosOnly);
    const targets = options.mevProtect ? bundles.protection.targets() : null;
    const headers = {
      ...(options.mevProtect && targets === null ? bundles.protection.missing : NO_HEADERS),
      ...warningOf(transactions),
    };
    return { ...(await bundles.ask('sendBundle', call.params, call.paramsText ?? '[]', context, targets)), headers };
  }

  function demandTip(transactions: readonly SignedTransaction[], swqosOnly: boolean): void {
    if (!config.requireTip) return;
    const least = swqosOnly ? config.minTipLamportsSwqos : config.minTipLamports;
    if (transactions.some(({ peek }) => largestTip(peek, config.tipAccounts) >= BigInt(Math.max(1, least)))) return;
    const details = `a transfer of at least ${least} lamports to one of ${config.tipAccounts.join(', ')} is needed`;
    throw new RpcError('invalidParams', { details });
  }

  async function answer(context: CallContext & { readonly body: unknown }, options: SendOptions): Promise<Reply> {
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
      const outcome = await run(call, context, options);
      const refused = 'errorText' in outcome;
      count(refused ? 'refused' : 'accepted');
      if (call.idText === undefined) return { status: 204, headers: outcome.headers };
      const text = refused
        ? errorReply(call.idText, outcome.errorText)
        : rpcResultReply(outcome.resultText, call.idText);
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
    tag: SENDER,
    auth: 'optional-key',
    errors: 'rpc',
    price: { product: 'other', credits: 0, groups: ['sender'] },
    query: Type.Object({
      swqos_only: Type.Optional(Type.Boolean({ description: 'Asks for the lower tip only' })),
      // Read by the handler, because a wrong value is an error of the HTTP request, not of the call: 400.
      'mev-protect': Type.Optional(
        Type.String({ description: 'True: only to upstreams that keep it from validators linked to sandwich attacks' }),
      ),
      'rebate-address': Type.Optional(Type.String({ description: 'Accepted, without effect' })),
    }),
    rawBody: true,
    bodyLimitBytes: MAX_BODY_BYTES,
    documented: { body: fastBody },
    replies: {
      200: envelope('The signature or the id of the bundle, or an error'),
      204: Type.Undefined({ description: 'The call was a notification: it has no id' }),
      400: refusal,
      401: refusal,
      429: refusal,
      503: refusal,
      504: refusal,
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

/** Names the limits that a transaction lacks: a node takes it, and it fails on the chain. */
function warningOf(transactions: readonly SignedTransaction[]): Outcome['headers'] {
  const unset = new Set(transactions.flatMap(unsetLimits));
  return unset.size === 0 ? NO_HEADERS : { 'x-unset-limits': [...unset].join(', ') };
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

/** `error`: an error of ours or the raw error object of an upstream. */
function errorReply(idText: string, error: RpcError | string): string {
  return rpcErrorReply(typeof error === 'string' ? error : errorObject(error), idText);
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

export function createRate(clock: Clock, config: Pick<SenderConfig, 'ratePerSecond' | 'burstFactor'>): Rate {
  // The LRU allocates on creation, so it is created with the first call.
  const buckets = createLru<string, { tokens: number; at: number }>({ max: MAX_BUCKETS });
  return {
    take({ caller, remoteAddress }) {
      const { ratePerSecond: perSecond, burstFactor } = config;
      const capacity = perSecond * burstFactor;
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

export interface SenderRouteParts {
  readonly bundles: Bundles | null;
  readonly protection: Protection;
  readonly config: Pick<SenderConfig, 'timeoutMs'>;
}

/** Calls of `POST /` that bypass the nodes: bundles, and transactions with `mev-protect`. */
export function createSendRoutes({ bundles, protection, config }: SenderRouteParts): SendRoutes {
  function routeBundle(method: BundleMethod, call: PassedCall): SendRoute {
    if (bundles === null) {
      throw new RpcError('methodNotFound', { details: 'no taker of bundles is configured (sender.bundleUrls)' });
    }
    const text = paramsText(call);
    const wanted = method === 'sendBundle' && isWanted(bundles.protection, call);
    const targets = wanted ? bundles.protection.targets() : null;
    const answer = bundles.ask(method, JSON.parse(text), text, call, targets);
    return wanted && targets === null ? { headers: bundles.protection.missing, answer } : { answer };
  }

  function routeTransaction(call: PassedCall): SendRoute | null {
    if (!isWanted(protection, call)) return null;
    const protectedTargets: Targets | null = protection.targets();
    if (protectedTargets === null) return { headers: protection.missing, answer: null };
    const body = rpcRequestOf('sendTransaction', paramsText(call));
    return { answer: broadcast(protectedTargets, body, config.timeoutMs, call.tenant) };
  }

  return {
    route(call) {
      const bundle = BUNDLE_METHODS.find((method) => method === call.method);
      if (bundle !== undefined) return routeBundle(bundle, call);
      return call.method === 'sendTransaction' ? routeTransaction(call) : null;
    },
  };
}

const paramsText = ({ body, params }: PassedCall): string =>
  params === null ? '[]' : body.toString('utf8', params.start, params.end);

const isWanted = (protection: Protection, { requestQuery }: PassedCall): boolean =>
  protection.wanted(requestQuery?.('mev-protect') ?? []);

const BUNDLE_METHODS = ['sendBundle', 'getBundleStatuses', 'simulateBundle'] as const;
export type BundleMethod = (typeof BUNDLE_METHODS)[number];

/** Forwarded unchanged; the bundle server knows its regions. */
const REGION_HEADER = 'jito-region';
const REGION = /^[a-z0-9-]{1,32}$/i;
const MAX_IDS = 5;
const MAX_SIMULATED = 5;

/** Calls the bundle servers one after the other. */
export interface Bundles {
  readonly protection: Protection;
  /** `paramsText` is forwarded unchanged after `params` were checked. `targets`: null for all bundle servers. Throws RpcError. */
  ask(
    method: BundleMethod,
    params: unknown,
    paramsText: string,
    context: Pick<CallContext, 'requestHeader' | 'tenant'>,
    targets?: Targets | null,
  ): Promise<RoutedAnswer>;
}

export function createBundles(
  pool: UpstreamPool,
  protection: Protection,
  config: Pick<SenderConfig, 'timeoutMs'>,
): Bundles {
  return {
    protection,
    async ask(method, params, paramsText, context, targets = null) {
      checkParams(method, params);
      const region = context.requestHeader?.(REGION_HEADER);
      if (region !== undefined && !REGION.test(region)) throw invalid(`${REGION_HEADER} is not the name of a region`);
      const body = rpcRequestOf(method, paramsText);
      const more = {
        tenant: context.tenant,
        ...(region === undefined ? {} : { headers: { [REGION_HEADER]: region } }),
        ...(targets?.query === undefined ? {} : { query: targets.query }),
      };
      const made: SendOutcome[] = [];
      let refusal: Extract<SendOutcome, { readonly kind: 'refused' }> | null = null;
      for (const upstream of pool.candidates()) {
        if (targets !== null && !targets.only?.has(upstream.label)) continue;
        const one = await exchange(pool, upstream, body, config.timeoutMs, more);
        if (one.kind === 'accepted') return one;
        if (one.kind === 'refused') {
          if (refusal === null || isMoreUseful(one.meaning, refusal.meaning)) refusal = one;
          if (!isOfTheNode(one.meaning)) break;
        }
        made.push(one);
        // A bundle goes to the next server only when no server can have it.
        if (method === 'sendBundle' && !isUnsent(one)) break;
      }
      if (refusal !== null) return refusal;
      throw noAnswer(made);
    },
  };
}

const isUnsent = (one: SendOutcome): boolean =>
  one.kind === 'refused'
    ? isBeforeSending(one.meaning)
    : one.kind === 'limited' || (one.kind === 'failed' && !one.sent);

function checkParams(method: BundleMethod, params: unknown): void {
  if (method === 'sendBundle') {
    readBundleParams(params);
    return;
  }
  const first: unknown = Array.isArray(params) ? params[0] : undefined;
  if (method === 'getBundleStatuses') {
    if (!isListOfText(first, MAX_IDS)) throw invalid(`params[0] has to be a list of 1 to ${MAX_IDS} bundle ids`);
    return;
  }
  const transactions = isPlainObject(first) ? first['encodedTransactions'] : undefined;
  if (!isListOfText(transactions, MAX_SIMULATED)) {
    throw invalid(`params[0].encodedTransactions has to be a list of 1 to ${MAX_SIMULATED} transactions`);
  }
}

const isListOfText = (value: unknown, most: number): boolean =>
  Array.isArray(value) && value.length > 0 && value.length <= most && value.every((one) => typeof one === 'string');

const invalid = (details: string) => new RpcError('invalidParams', { details });
