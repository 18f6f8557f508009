import { LRUCache } from 'lru-cache';
import { codeOf } from '../../src/lib/coded-error.ts';
import { isPlainObject, stringify } from '../../src/lib/json.ts';
import { defineRoute, type Route, Type } from '../../src/plugin/plugin.ts';
import { JsonText, type Reply, RequestError } from '../../src/plugin/request.ts';
import type { Clock } from '../../src/ports/clock.ts';
import { isNft, type Metadata } from '../../src/solana/accounts/metaplex.ts';
import type { TokenMetadata } from '../../src/solana/accounts/token.ts';
import type { TokenMetadataConfig } from './config.ts';
import type { Documents } from './documents.ts';
import type { FactsService } from './facts.ts';
import { type LoadRecords, type TokenRecord, textsOf } from './records.ts';
import type { OffChainAnswer, OffChainDocument } from './store.ts';
import type { ListedToken, TokenList } from './token-list.ts';
import type { ChangedSlots } from './watch.ts';

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

interface ElementParts {
  readonly record: TokenRecord;
  /** Null when it was not asked for, or there is nothing to fetch. */
  readonly document: OffChainAnswer | null;
  readonly listed: ListedToken | null;
  readonly shareAsNumber: boolean;
}

/** One element of the answer, as JSON text. */
function renderElement(parts: ElementParts): string {
  const { record, listed } = parts;
  const account = record.mint;
  if (record.kind === 'none') {
    const { error } = record;
    return stringify({
      account,
      onChainAccountInfo: { accountInfo: null, error },
      onChainMetadata: { metadata: null, error },
      offChainMetadata: { metadata: null, uri: '', error },
      legacyMetadata: listed,
    });
  }
  const { metadata } = record;
  return stringify({
    account,
    onChainAccountInfo: { accountInfo: renderAccountInfo(record), error: '' },
    onChainMetadata: {
      metadata: renderMetadata(record, parts.shareAsNumber),
      error: metadata.kind === 'none' ? metadata.error : '',
    },
    offChainMetadata:
      metadata.kind === 'none'
        ? { metadata: null, uri: '', error: metadata.error }
        : renderOffChain(textsOf(record).uri, parts.document, parts.shareAsNumber),
    legacyMetadata: listed,
  });
}

function renderOffChain(uri: string, answer: OffChainAnswer | null, shareAsNumber: boolean) {
  if (answer === null) return { metadata: null, uri, error: '' };
  if (answer.document === null) return { metadata: null, uri, error: answer.error };
  return { metadata: renderDocument(answer.document, shareAsNumber), uri, error: '' };
}

function renderDocument(document: OffChainDocument, shareAsNumber: boolean): object {
  const { properties } = document;
  const creators = properties.creators?.map(({ address, share }) => ({
    address,
    share: shareAsNumber ? share : String(share),
  }));
  return { ...document, properties: { ...properties, creators: creators ?? null } };
}

const NO_USES = { useMethod: '', remaining: 0, total: 0 } as const;

type MintRecord = TokenRecord & { readonly kind: 'mint' };

/** The section `onChainAccountInfo.accountInfo`: what is missing is written as an empty text. */
function renderAccountInfo({ mint, account, decoded }: MintRecord) {
  const info = {
    decimals: decoded.decimals,
    freezeAuthority: decoded.freezeAuthority ?? '',
    isInitialized: true,
    mintAuthority: decoded.mintAuthority ?? '',
    supply: decoded.supply.toString(),
  };
  return {
    key: mint,
    isSigner: false,
    isWritable: false,
    lamports: account.lamports,
    data: { parsed: { info, type: 'mint' }, program: account.owner, space: account.data.length },
    owner: account.owner,
    executable: account.executable,
    rentEpoch: account.rentEpoch,
  };
}

/** The section `onChainMetadata.metadata`, for every kind of metadata; null when absent. */
function renderMetadata(record: MintRecord, shareAsNumber: boolean) {
  const { metadata } = record;
  if (metadata.kind === 'metaplex') return renderMetaplex(metadata.value, shareAsNumber);
  return metadata.kind === 'extension' ? renderExtension(record, metadata.value) : null;
}

function renderMetaplex(value: Metadata, shareAsNumber: boolean) {
  const { name, symbol, uri, sellerFeeBasisPoints, collection, collectionDetails, uses } = value;
  const creators = value.creators?.map(({ address, share, verified }) => ({
    address,
    share: shareAsNumber ? share : String(share),
    verified,
  }));
  return {
    key: 'MetadataV1',
    updateAuthority: value.updateAuthority,
    mint: value.mint,
    data: { name, symbol, uri, sellerFeeBasisPoints, creators: creators ?? null },
    primarySaleHappened: value.primarySaleHappened,
    isMutable: value.isMutable,
    editionNonce: value.editionNonce ?? 0,
    tokenStandard: value.tokenStandard ?? '',
    collection: collection && { key: collection.key, verified: collection.verified },
    collectionDetails: collectionDetails && { size: collectionDetails.size },
    uses: uses === null ? NO_USES : { useMethod: uses.method, remaining: uses.remaining, total: uses.total },
  };
}

function renderExtension({ decoded }: MintRecord, { updateAuthority, mint, name, symbol, uri }: TokenMetadata) {
  return {
    key: 'MetadataV1',
    updateAuthority: updateAuthority ?? '',
    mint,
    data: { name, symbol, uri, sellerFeeBasisPoints: 0, creators: null },
    primarySaleHappened: false,
    isMutable: updateAuthority !== null,
    editionNonce: 0,
    tokenStandard: isNft(decoded, null) ? 'NonFungible' : 'Fungible',
    collection: null,
    collectionDetails: null,
    uses: NO_USES,
  };
}

const nullable = <T extends Parameters<typeof Type.Union>[0][number]>(schema: T) => Type.Union([schema, Type.Null()]);
const sectionError = Type.String({
  description: 'empty, or UNKNOWN, EMPTY_ACCOUNT, TIMEOUT, INVALID_ACCOUNT, INVALID_PUBKEY',
});
const share = Type.Union([Type.String(), Type.Integer()], {
  description: 'per cent; text unless configured otherwise',
});

const mintInfo = Type.Object({
  decimals: Type.Integer(),
  freezeAuthority: Type.String(),
  isInitialized: Type.Boolean(),
  mintAuthority: Type.String(),
  supply: Type.String({ description: 'raw units' }),
});

const accountInfo = Type.Object({
  key: Type.String(),
  isSigner: Type.Boolean(),
  isWritable: Type.Boolean(),
  lamports: Type.Integer(),
  data: Type.Object({
    parsed: Type.Object({ info: mintInfo, type: Type.String() }),
    program: Type.String({ description: 'address of the token program' }),
    space: Type.Integer({ description: 'bytes of the account' }),
  }),
  owner: Type.String(),
  executable: Type.Boolean(),
  rentEpoch: Type.Integer(),
});

const chainMetadata = Type.Object({
  key: Type.String(),
  updateAuthority: Type.String(),
  mint: Type.String(),
  data: Type.Object({
    name: Type.String(),
    symbol: Type.String(),
    uri: Type.String(),
    sellerFeeBasisPoints: Type.Integer(),
    creators: nullable(Type.Array(Type.Object({ address: Type.String(), share, verified: Type.Boolean() }))),
  }),
  primarySaleHappened: Type.Boolean(),
  isMutable: Type.Boolean(),
  editionNonce: Type.Integer(),
  tokenStandard: Type.String(),
  collection: nullable(Type.Object({ key: Type.String(), verified: Type.Boolean() })),
  collectionDetails: nullable(Type.Object({ size: Type.Integer() })),
  uses: Type.Object({ useMethod: Type.String(), remaining: Type.Integer(), total: Type.Integer() }),
});

const document = Type.Object({
  name: Type.String(),
  symbol: Type.String(),
  description: Type.String(),
  image: Type.String(),
  attributes: nullable(Type.Array(Type.Object({ traitType: Type.String(), value: Type.String() }))),
  sellerFeeBasisPoints: Type.Number(),
  properties: Type.Object({
    category: nullable(Type.String()),
    creators: nullable(Type.Array(Type.Object({ address: Type.String(), share }))),
    files: nullable(Type.Array(Type.Object({ uri: Type.String(), type: Type.String() }))),
  }),
});

const listed = Type.Object({
  chainId: Type.Integer(),
  address: Type.String(),
  symbol: Type.String(),
  name: Type.String(),
  decimals: Type.Integer(),
  logoURI: Type.String(),
  tags: Type.Array(Type.Unknown()),
  extensions: Type.Record(Type.String(), Type.Unknown()),
});

const questionSchema = Type.Object({
  mintAccounts: Type.Array(Type.String(), { maxItems: 100, description: 'addresses of mints' }),
  includeOffChain: Type.Optional(Type.Boolean({ default: false, description: 'also read what the uri points to' })),
  disableCache: Type.Optional(Type.Boolean({ default: false, description: 'read everything again' })),
});

const replySchema = Type.Array(
  Type.Object({
    account: Type.String(),
    onChainAccountInfo: Type.Object({ accountInfo: nullable(accountInfo), error: sectionError }),
    onChainMetadata: Type.Object({ metadata: nullable(chainMetadata), error: sectionError }),
    offChainMetadata: Type.Object({ metadata: nullable(document), uri: Type.String(), error: sectionError }),
    legacyMetadata: nullable(listed),
  }),
);

const errorReply = Type.Object({ error: Type.String(), code: Type.Integer() });
