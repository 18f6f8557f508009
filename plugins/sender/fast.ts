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
} from '../../src/kernel/plugin.ts';
import { broadcast, noAnswer, sendBody } from './broadcast.ts';
import type { SenderConfig } from './config.ts';
import { type Exchange, exchange } from './exchange.ts';
import { createRate } from './rate.ts';
import type { Rebroadcast } from './rebroadcast.ts';
import { errorReply, parseBody, resultReply, type SenderCall } from './request.ts';
import { largestTip } from './system-program.ts';
import { readBundleParams, readSendParams, type SignedTransaction } from './transaction.ts';

export interface FastParts {
  readonly config: SenderConfig;
  /** Null when no upstream is configured. */
  readonly pool: UpstreamPool | null;
  readonly bundlePool: UpstreamPool | null;
  readonly clock: Clock;
  readonly metrics: Metrics;
  /** Null when transactions are sent once. */
  readonly rebroadcast: Rebroadcast | null;
}

const envelope = Type.Object({ jsonrpc: Type.Literal('2.0'), id: Type.Unknown() }, { additionalProperties: true });

export function createFastRoute(parts: FastParts): Route {
  const { config } = parts;
  const rate = createRate(parts.clock, config.ratePerSecond, config.burstFactor);
  const calls = parts.metrics.counter('calls_total', 'calls of /fast by method and outcome', ['method', 'outcome']);

  /** Raw JSON of the result, or the raw error object of an upstream. Throws RpcError. */
  async function run(call: SenderCall, context: CallContext, swqosOnly: boolean) {
    if (config.requireKey && context.caller === null) throw new RpcError('unauthorized');
    const isBundle = call.method === 'sendBundle' && parts.bundlePool !== null;
    if (!isBundle && call.method !== 'sendTransaction') throw new RpcError('methodNotFound');
    rate.take(context);
    if (isBundle) return sendBundle(call, swqosOnly);
    const transaction = readSendParams(call.params);
    demandTip([transaction], swqosOnly);
    if (parts.pool === null) throw new RpcError('unavailable');
    if (parts.rebroadcast?.hasRoom(transaction.peek.signature) === false) {
      throw new RpcError('unavailable', { details: 'too many transactions wait to be seen', retryAfterS: 1 });
    }
    const body = sendBody(transaction.wire, { maxRetries: 0, ...transaction.options });
    const outcome = await broadcast(parts.pool, body, config.timeoutMs);
    if (outcome.kind === 'refused') return outcome;
    parts.rebroadcast?.add(transaction);
    return { resultText: JSON.stringify(transaction.peek.signature) };
  }

  /** One bundle upstream after the other, the next only when nothing can have left. */
  async function sendBundle(call: SenderCall, swqosOnly: boolean) {
    demandTip(readBundleParams(call.params), swqosOnly);
    const pool = parts.bundlePool!;
    const body = `{"jsonrpc":"2.0","id":1,"method":"sendBundle","params":${call.paramsText}}`;
    const made: Exchange[] = [];
    for (const upstream of pool.candidates()) {
      const one = await exchange(pool, upstream, body, config.timeoutMs);
      if (one.kind === 'accepted' || one.kind === 'refused') return one;
      made.push(one);
      if (one.kind !== 'failed' || one.sent) break;
    }
    throw noAnswer(made);
  }

  function demandTip(transactions: readonly SignedTransaction[], swqosOnly: boolean): void {
    if (!config.requireTip) return;
    const least = swqosOnly ? config.minTipLamportsSwqos : config.minTipLamports;
    if (transactions.some(({ peek }) => largestTip(peek, config.tipAccounts) >= BigInt(Math.max(1, least)))) return;
    const details = `a transfer of at least ${least} lamports to one of ${config.tipAccounts.join(', ')} is needed`;
    throw new RpcError('invalidParams', { details });
  }

  async function answer(context: CallContext & { readonly body: unknown }, swqosOnly: boolean): Promise<Reply> {
    const parsed = parseBody(context.body as Buffer);
    if (parsed.kind === 'error') return reply(parsed.error.status, errorReply(parsed.idText, parsed.error));
    const { call } = parsed;
    const count = (outcome: string) => calls.with(methodLabel(call.method), outcome).add();
    try {
      const outcome = await run(call, context, swqosOnly);
      const refused = 'errorText' in outcome;
      count(refused ? 'refused' : 'accepted');
      if (call.idText === undefined) return { status: 204 };
      const text = refused ? errorReply(call.idText, outcome.errorText) : resultReply(call.idText, outcome.resultText);
      return reply(200, text);
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
    }),
    rawBody: true,
    replies: { 200: envelope, 401: envelope, 429: envelope, 503: envelope, 504: envelope },
    handler: (request) => answer(request, request.query.swqos_only === true),
  });
}

/** Method names of strangers are no labels. */
const methodLabel = (method: string) => (method === 'sendTransaction' || method === 'sendBundle' ? method : 'other');

function reply(status: number, text: string, retryAfterS?: number): Reply {
  const headers = retryAfterS === undefined ? {} : { 'retry-after': String(retryAfterS) };
  return { status, headers, jsonBytes: Buffer.from(text) };
}
