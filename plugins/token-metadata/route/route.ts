import { LRUCache } from 'lru-cache';
import { codeOf } from '../../../src/lib/coded-error.ts';
import { isPlainObject } from '../../../src/lib/json.ts';
import { defineRoute, type Route, Type } from '../../../src/plugin/plugin.ts';
import { JsonText, type Reply, RequestError } from '../../../src/plugin/request.ts';
import type { Clock } from '../../../src/ports/clock.ts';
import type { TokenMetadataConfig } from '../config.ts';
import type { FactsService } from '../facts.ts';
import type { Documents } from '../off-chain/documents.ts';
import { type LoadRecords, type TokenRecord, textsOf } from '../records.ts';
import type { OffChainAnswer } from '../store/document-store.ts';
import type { TokenList } from '../token-list/token-list.ts';
import type { ChangedSlots } from '../watch/mint-index.ts';
import { renderElement } from './element.ts';
import { errorReply, questionSchema, replySchema } from './schemas.ts';

const HEADERS = { Deprecation: 'true' } as const;
/** For everything that is neither waiting for an upstream nor for documents. */
const MARGIN_MS = 5_000;
/** Mints and what they point to are read one after the other. */
const ROUNDS = 2;

/** `POST /v0/token-metadata`: what is known of up to 100 mints. */
export function tokenMetadataRoute(parts: AnswerParts): Route {
  const { config } = parts;
  return defineRoute({
    method: 'POST',
    path: '/v0/token-metadata',
    summary: 'What is known of up to 100 mints, on the chain and beside it (deprecated by the hosted service)',
    tag: 'Tokens',
    auth: 'key',
    errors: 'plain',
    price: { product: 'enhancedApi', credits: config.credits, groups: ['das'] },
    timeoutMs: ROUNDS * config.upstreamTimeoutMs + config.offChain.batchTimeoutMs + MARGIN_MS,
    // The first form is the documentation; the handler checks in its own words.
    body: Type.Union([questionSchema, Type.Unknown()]),
    replies: { 200: replySchema, 400: errorReply, 401: errorReply, 429: errorReply, 503: errorReply, 504: errorReply },
    handler({ body }) {
      const texts = answer(readBody(body), parts);
      // Without a promise where nothing has to be waited for.
      return texts instanceof Promise ? texts.then(replyOf) : replyOf(texts);
    },
  });
}

const replyOf = (texts: readonly string[]): Reply => ({
  status: 200,
  headers: HEADERS,
  json: new JsonText(`[${texts.join(',')}]`),
});

interface AnswerParts {
  /** Null: no upstream is configured. */
  readonly load: LoadRecords | null;
  readonly documents: Documents;
  readonly list: TokenList;
  readonly facts: FactsService;
  readonly answers: Answers;
  readonly changed: ChangedSlots;
  readonly config: TokenMetadataConfig;
}

/**
 * The elements of an answer as JSON texts, in the order of the question: at once where all are kept. Throws RequestError when the chain
 * cannot be asked at all.
 */
function answer(question: Question, parts: AnswerParts): readonly string[] | Promise<readonly string[]> {
  const { mints, includeOffChain, disableCache } = question;
  const texts = new Map<string, string>();
  const missing: string[] = [];
  for (const mint of new Set(mints)) {
    const text = disableCache ? undefined : parts.answers.get(mint, includeOffChain);
    if (text === undefined) missing.push(mint);
    else texts.set(mint, text);
  }
  const inOrder = () => mints.map((mint) => texts.get(mint) ?? '');
  if (missing.length === 0) return inOrder();
  return make(missing, question, texts.size, parts).then((made) => {
    for (const [mint, text] of made) texts.set(mint, text);
    return inOrder();
  });
}

async function make(
  mints: readonly string[],
  { includeOffChain, disableCache }: Question,
  alreadyKnown: number,
  parts: AnswerParts,
): Promise<ReadonlyMap<string, string>> {
  const { config, documents, facts, answers, changed } = parts;
  if (parts.load === null) throw unavailable(undefined);
  const { records, failed } = await parts.load(mints, disableCache);
  const askable = [...records.values()].filter((record) => record.kind === 'mint' || record.error !== 'INVALID_PUBKEY');
  const [firstError] = failed.values();
  if (failed.size > 0 && failed.size === askable.length && alreadyKnown === 0) throw unavailable(firstError);
  facts.learn(records.values());

  const uris = includeOffChain ? [...records.values()].map(uriOf).filter((uri) => uri !== '') : [];
  const wait = { waitMs: config.offChain.batchTimeoutMs, fresh: disableCache };
  const found: ReadonlyMap<string, OffChainAnswer> = uris.length === 0 ? new Map() : await documents.get(uris, wait);
  const entry = await parts.list.entries();

  const texts = new Map<string, string>();
  for (const [mint, record] of records) {
    const document = found.get(uriOf(record)) ?? null;
    const text = renderElement({ record, document, listed: entry(mint), shareAsNumber: config.shareAsNumber });
    texts.set(mint, text);
    // What is missing may be there the next time.
    const isWhole = record.kind === 'mint' && isFirm(record) && (document === null || document.error === '');
    if (isWhole && changed.isCurrent(mint, record.slot))
      answers.set(mint, includeOffChain, text, record.readAtMs + config.accountTtlMs);
  }
  return texts;
}

const uriOf = (record: TokenRecord): string => (record.kind === 'mint' ? textsOf(record).uri : '');

const isFirm = ({ metadata }: TokenRecord & { readonly kind: 'mint' }): boolean =>
  metadata.kind !== 'none' || metadata.error !== 'TIMEOUT';

function unavailable(cause: unknown): RequestError {
  return codeOf(cause) === 'CHAIN_TIMEOUT'
    ? new RequestError(504, 'Gateway timeout', { cause })
    : new RequestError(503, 'Service unavailable', { cause, retryAfterS: 1, details: 'No Solana upstream answers' });
}

/** Finished elements of answers, as JSON text: of a mint, with or without its document. */
interface Answers {
  get(mint: string, withDocument: boolean): string | undefined;
  /** Counts until a time of the monotonic clock. */
  set(mint: string, withDocument: boolean, text: string, untilMs: number): void;
  drop(mints: readonly string[]): void;
}

const ENTRY_BYTES = 200;

export function createAnswers(clock: Clock, cacheBytes: number): Answers {
  const cache = new LRUCache<string, string>({
    maxSize: cacheBytes,
    sizeCalculation: (text) => text.length + ENTRY_BYTES,
    ttlResolution: 0,
    perf: { now: () => clock.monotonic() },
  });
  const keyOf = (mint: string, withDocument: boolean): string => (withDocument ? `+${mint}` : mint);
  return {
    get: (mint, withDocument) => cache.get(keyOf(mint, withDocument)),
    set(mint, withDocument, text, untilMs) {
      const ttl = untilMs - clock.monotonic();
      if (ttl > 0) cache.set(keyOf(mint, withDocument), text, { ttl });
    },
    drop(mints) {
      for (const mint of mints) for (const withDocument of [false, true]) cache.delete(keyOf(mint, withDocument));
    },
  };
}

interface Question {
  readonly mints: readonly string[];
  readonly includeOffChain: boolean;
  readonly disableCache: boolean;
}

const MAX_MINTS = 100;

/** Checks a body in the words of this endpoint. Throws RequestError with status 400. */
function readBody(body: unknown): Question {
  const mints = isPlainObject(body) ? body['mintAccounts'] : undefined;
  if (!isPlainObject(body) || !isListOfText(mints))
    throw new RequestError(400, `mintAccounts must be an array of at most ${MAX_MINTS} strings`);
  if (mints.length > MAX_MINTS)
    throw new RequestError(400, `at most ${MAX_MINTS} mint accounts per request, got ${mints.length}`);
  return { mints, includeOffChain: flag(body, 'includeOffChain'), disableCache: flag(body, 'disableCache') };
}

function isListOfText(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every((item) => typeof item === 'string');
}

function flag(body: Readonly<Record<string, unknown>>, name: string): boolean {
  const value = body[name] ?? false;
  if (typeof value !== 'boolean') throw new RequestError(400, `${name} must be a boolean`);
  return value;
}
