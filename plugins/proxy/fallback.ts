import { isAscii } from 'node:buffer';
import { rpcErrorReply, rpcRequestOf, rpcResultReply } from '../../src/lib/json-rpc.ts';
import type { RpcFallback, RpcForward, RpcForwardReply } from '../../src/plugin/host.ts';
import { type Price, type RateGroup, RpcError, type UpstreamPool } from '../../src/plugin/plugin.ts';
import type {
  AskAgain,
  KeptAnswer,
  KeptAnswers,
  KeptQuestion,
  UpstreamResult,
} from '../../src/ports/address-history.ts';
import type { CallSignal, RoutedAnswer, SendRoutes } from '../../src/ports/upstream.ts';
import { ASSET_METHODS, type AssetMethod, namesOf } from '../../src/solana/assets/methods.ts';
import { type AskUpstreams, answerTooLarge } from './ask.ts';
import type { ServedAnswer } from './attempt.ts';
import type { CachedAsk } from './cache/cached-ask.ts';
import type { ProxyConfig } from './config.ts';
import { createDrafts } from './drafts.ts';

export interface FallbackParts {
  /** Methods that the documents list. */
  readonly methods?: NonNullable<RpcFallback['methods']>;
  /** Null when no upstream is configured. */
  readonly pool: UpstreamPool | null;
  readonly price: PriceOf;
  readonly ask: AskUpstreams | null;
  /** Null when the cache is disabled. */
  readonly cached: CachedAsk | null;
  /** Routes of calls that do not go to the upstreams of the main chain. */
  readonly routes: SendRoutes | null;
  /** Answers from what this daemon keeps; absent or null: there are none. */
  readonly kept?: KeptAnswers | null;
  /** An answer of up to `peekBytes` is checked before it is forwarded. */
  readonly config: Pick<ProxyConfig, 'peekBytes'>;
  /** Whether the operator lets callers have a method. */
  readonly allows: (method: string) => boolean;
  /** Largest answer of a batch item. */
  readonly maxItemBytes: () => number;
}

/** Up to this size copying a body into the header's write is cheaper than two writes. */
const ONE_WRITE_BYTES = 32_768;
const HIT = { 'x-cache': 'HIT' } as const;
const KEPT = { 'x-cache': 'LEDGER' } as const;
/** Control methods of the local chain are for tests that connect to it directly. */
const PRIVATE_METHOD = /^local_/;

export function createFallback(parts: FallbackParts): RpcFallback {
  const { ask, cached } = parts;
  const drafts = createDrafts({ forward: forwardToNode, allows: parts.allows });

  async function forward(call: RpcForward): Promise<RpcForwardReply> {
    try {
      const route = parts.routes?.route(call) ?? null;
      if (route === null) return await forwardToNode(call);
      if (route.answer !== null) return routed(call, await route.answer, route.headers);
      const usual = await forwardToNode(call);
      return { ...usual, headers: { ...usual.headers, ...route.headers } };
    } catch (error) {
      // The client is gone; this is not a failure of ours.
      throw call.stop.aborted ? new RpcError('unavailable') : error;
    }
  }

  function routed(
    call: RpcForward,
    answer: RoutedAnswer | KeptAnswer | UpstreamResult,
    headers: RpcForwardReply['headers'] = {},
  ): RpcForwardReply {
    const id = call.id ?? 'null';
    return {
      status: 200,
      headers,
      body: Buffer.from(
        'resultText' in answer ? rpcResultReply(answer.resultText, id) : rpcErrorReply(answer.errorText, id),
      ),
      answered: true,
    };
  }

  async function forwardToNode(call: RpcForward): Promise<RpcForwardReply> {
    if (ask === null) throw new RpcError('methodNotFound', { details: 'no Solana upstream is configured' });
    if (PRIVATE_METHOD.test(call.method)) throw new RpcError('methodNotFound');
    if (drafts.concerns(call)) return await drafts.answer(call);
    const kept = keptAnswer(call);
    const found = kept === null ? null : await kept;
    if (found !== null) return routedKept(call, found);
    const fromCache = cachedAnswer(call, ask);
    if (parts.kept?.checks(call.method) === true) return await checked(call, parts.kept, ask, fromCache);
    if (fromCache === null) return reply(call, await ask(question(call, 0, call.stop)), false);
    const { answer, hit } = await fromCache;
    return reply(call, answer, hit);
  }

  const routedKept = (call: RpcForward, found: KeptAnswer) =>
    routed(call, found, 'headers' in found ? { ...KEPT, ...found.headers } : KEPT);

  /** What an upstream says is completed with what is kept; without an upstream that is all there is. */
  async function checked(
    call: RpcForward,
    kept: KeptAnswers,
    ask: AskUpstreams,
    fromCache: ReturnType<CachedAsk['ask']>,
  ): Promise<RpcForwardReply> {
    const asked = keptQuestion(call);
    let made: { readonly answer: ServedAnswer; readonly hit: boolean };
    try {
      made = fromCache === null ? { answer: await ask(question(call, 0, call.stop)), hit: false } : await fromCache;
    } catch (error) {
      const found = call.stop.aborted ? null : await kept.alone(asked);
      if (found === null) throw error;
      return routedKept(call, found);
    }
    const { answer, hit } = made;
    const said = hit ? null : resultOf(answer);
    const found = said === null ? null : await kept.check(asked, said, askAgain(call, ask));
    if (found === null) return reply(call, answer, hit);
    return 'upstream' in found ? routed(call, found) : routedKept(call, found);
  }

  const askAgain =
    (call: RpcForward, ask: AskUpstreams): AskAgain =>
    async (prefer, method, params) => {
      const id = '1';
      const body = Buffer.from(rpcRequestOf(method, params));
      const asked = question(call, 0, call.stop);
      return resultOf(await ask({ ...asked, method, body, params: null, id, seat: null, prefer }));
    };

  // Closures over a call are made outside of the async function: over its variables, they keep each call until the next major collection.
  const keptAnswer = (call: RpcForward) => parts.kept?.answer(keptQuestion(call)) ?? null;

  const keptQuestion = ({ method, body, params, tenant }: RpcForward): KeptQuestion => ({
    method,
    params: () => (params === null ? null : body.toString('utf8', params.start, params.end)),
    tenant,
  });

  const cachedAnswer = (call: RpcForward, ask: AskUpstreams) =>
    cached?.ask(call, (wholeBytes, signal) => ask(question(call, wholeBytes, signal))) ?? null;

  const question = (call: RpcForward, wholeBytes: number, signal: CallSignal) => ({
    context: call,
    method: call.method,
    body: call.body,
    params: call.params,
    id: call.id,
    signal,
    seat: call.seat,
    wholeBytes: call.seat !== null ? parts.maxItemBytes() : Math.max(wholeBytes, parts.config.peekBytes),
  });

  function reply(call: RpcForward, answer: ServedAnswer, hit: boolean): RpcForwardReply {
    const headers = hit ? HIT : {};
    if (answer.kind === 'empty') return { status: 200, headers, body: Buffer.alloc(0), answered: true };
    if (answer.kind === 'whole') return { status: 200, headers, body: bodyOf(call, answer.bytes), answered: true };
    if (call.seat !== null) {
      answer.stream.on('error', () => {}).destroy();
      throw answerTooLarge(parts.maxItemBytes());
    }
    return { status: 200, headers, body: answer.stream, answered: true };
  }

  return {
    methods: parts.methods ?? [],
    price: parts.price,
    atHand: (question) => {
      const body = drafts.concerns(question) ? null : (cached?.atHand(question) ?? null);
      return body === null ? null : { status: 200, headers: HIT, body, answered: true };
    },
    forward,
  };
}

/** Null: an error, or an answer that is too large to be read. */
function resultOf(answer: ServedAnswer): UpstreamResult | null {
  const result = answer.kind === 'whole' ? answer.parts.result : null;
  if (answer.kind !== 'whole' || result === null) return null;
  const { bytes, upstream, sentAt } = answer;
  return { resultText: bytes.toString('utf8', result.start, result.end), upstream, sentAt };
}

/** The body in its cheapest form: bytes, or for short ASCII a string with one character per byte. */
function bodyOf({ seat }: RpcForward, bytes: Buffer): string | Buffer {
  return seat === null && bytes.length <= ONE_WRITE_BYTES && isAscii(bytes) ? bytes.toString('latin1') : bytes;
}

/** Methods that read the archive. */
const HISTORICAL = [
  'getBlock',
  'getBlocks',
  'getBlocksWithLimit',
  'getSignaturesForAddress',
  'getTransaction',
  'getBlockTime',
  'getInflationReward',
];

const DAS = (Object.keys(ASSET_METHODS) as AssetMethod[]).flatMap(namesOf);

/** Compression methods whose names do not contain the word. */
const COMPRESSION = [
  'getMultipleNewAddressProofs',
  'getMultipleNewAddressProofsV2',
  'getIndexerHealth',
  'getIndexerSlot',
  'getLatestNonVotingSignatures',
];

/** Methods with a separate rate, in addition to that of their group. */
const OWN_GROUP = ['sendTransaction', 'simulateBundle'];
/** Number of full results of getTransactionsForAddress per price; also the default limit. */
const FULL_RESULTS = 100;

type PriceOf = (method: string, params: () => unknown) => Price;

/** The price list of proxied methods. A compression method costs the same whether a plugin or an upstream answers it. */
export function createMethodPrices(credits: ProxyConfig['credits']): PriceOf {
  const price = (product: Price['product'], of: keyof ProxyConfig['credits'], ...groups: RateGroup[]): Price => ({
    product,
    get credits() {
      return credits[of];
    },
    groups,
  });
  const standard = price('rpc', 'standard', 'rpc');
  const historical = price('archival', 'historical', 'rpc');
  const das = price('das', 'das', 'das');
  const compression = price('photon', 'compression', 'photon');
  const proof = price('photon', 'validityProof', 'photon', 'getValidityProof');
  const programAccounts = price('rpc', 'programAccounts', 'rpc', 'getProgramAccounts');
  const history = (lots: number): Price => {
    const amount = credits.transactionsForAddress * lots;
    return { product: 'archival', credits: amount, groups: ['rpc'] };
  };
  const fixed = new Map<string, Price>([
    ...HISTORICAL.map((method) => [method, historical] as const),
    ...DAS.map((method) => [method, das] as const),
    ...COMPRESSION.map((method) => [method, compression] as const),
    ...OWN_GROUP.map((method) => [method, price('rpc', 'standard', 'rpc', method)] as const),
    ['getProgramAccounts', programAccounts],
    ['getTokenAccountsByMint', programAccounts],
    ['sendBundle', price('rpc', 'sendBundle', 'rpc', 'sendBundle')],
    ['getValidityProof', proof],
    ['getValidityProofV2', proof],
  ]);
  return (method, params) => {
    const known = fixed.get(method);
    if (known !== undefined) return known;
    if (method === 'getTransactionsForAddress') return history(lotsOf(params()));
    if (method === 'getSignatureStatuses') return searchesHistory(params()) ? historical : standard;
    if (/^get_?assets_?by/i.test(method)) return das;
    return method.includes('Compress') ? compression : standard;
  };
}

/** Full transactions requested, in hundreds, rounded up; a list of signatures counts as one. */
function lotsOf(params: unknown): number {
  const options = Array.isArray(params)
    ? (params[1] as { transactionDetails?: unknown; limit?: unknown } | null)
    : null;
  if (options?.transactionDetails !== 'full') return 1;
  const { limit } = options;
  return typeof limit === 'number' && limit > FULL_RESULTS ? Math.ceil(Math.min(limit, 1_000) / FULL_RESULTS) : 1;
}

function searchesHistory(params: unknown): boolean {
  const options = Array.isArray(params) ? (params[1] as unknown) : undefined;
  return typeof options === 'object' && options !== null && 'searchTransactionHistory' in options
    ? options.searchTransactionHistory === true
    : false;
}
