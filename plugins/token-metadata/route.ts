import { LRUCache } from 'lru-cache';
import { codeOf } from '../../src/lib/coded-error.ts';
import { isPlainObject, stringify } from '../../src/lib/json.ts';
import { defineRoute, type Route, Type } from '../../src/plugin/plugin.ts';
import { JsonText, type Reply, RequestError } from '../../src/plugin/request.ts';
import type { Clock } from '../../src/ports/clock.ts';

import { isNft, type Metadata } from '../../src/solana/accounts/metaplex.ts';
import type { TokenMetadata } from '../../src/solana/accounts/token.ts';
import { TOKEN_PROGRAM, USDC_MINT } from '../../src/solana/programs.ts';
import * as s from '../../src/solana/schemas.ts';
import type { TokenMetadataConfig } from './config.ts';
import type { OffChainDocument } from './document-shape.ts';
import type { Documents } from './documents.ts';
import type { FactsService } from './facts.ts';
import { type LoadRecords, type TokenRecord, textsOf } from './records.ts';
import type { OffChainAnswer } from './store.ts';
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
    summary: 'Metadata of up to 100 mints, from the chain and from documents off the chain',
    description: 'The hosted service deprecates it in favour of its asset API.',
    deprecated: true,
    tag: { name: 'Tokens', description: 'Metadata of tokens and NFTs' },
    auth: 'key',
    errors: 'plain',
    price: {
      product: 'enhancedApi',
      get credits() {
        return config.credits;
      },
      groups: ['das'],
    },
    get timeoutMs() {
      return ROUNDS * config.upstreamTimeoutMs + config.offChain.batchTimeoutMs + MARGIN_MS;
    },
    body: questionSchema,
    explain: readBody,
    replies: { 200: replySchema, 400: errorReply, 401: errorReply, 429: errorReply, 503: errorReply, 504: errorReply },
    handler({ body, tenant }) {
      const texts = answer(readBody(body), tenant.id, parts);
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
function answer(
  question: MetadataQuestion,
  group: string,
  parts: AnswerParts,
): readonly string[] | Promise<readonly string[]> {
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
  return make(missing, { ...question, group }, texts.size, parts).then((made) => {
    for (const [mint, text] of made) texts.set(mint, text);
    return inOrder();
  });
}

async function make(
  mints: readonly string[],
  { includeOffChain, disableCache, group }: MetadataQuestion & { readonly group: string },
  alreadyKnown: number,
  parts: AnswerParts,
): Promise<ReadonlyMap<string, string>> {
  const { config, documents, facts, answers, changed } = parts;
  if (parts.load === null) throw unavailable(undefined);
  const { records, failed } = await parts.load(mints, group, disableCache);
  const askable = [...records.values()].filter((record) => record.kind === 'mint' || record.error !== 'INVALID_PUBKEY');
  const [firstError] = failed.values();
  if (failed.size > 0 && failed.size === askable.length && alreadyKnown === 0) throw unavailable(firstError);
  facts.learn(records.values());

  const uris = includeOffChain ? [...records.values()].map(uriOf).filter((uri) => uri !== '') : [];
  const wait = { waitMs: config.offChain.batchTimeoutMs, fresh: disableCache, group };
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
  const answerKey = (mint: string, withDocument: boolean): string => (withDocument ? `+${mint}` : mint);
  return {
    get: (mint, withDocument) => cache.get(answerKey(mint, withDocument)),
    set(mint, withDocument, text, untilMs) {
      const ttl = untilMs - clock.monotonic();
      if (ttl > 0) cache.set(answerKey(mint, withDocument), text, { ttl });
    },
    drop(mints) {
      for (const mint of mints) for (const withDocument of [false, true]) cache.delete(answerKey(mint, withDocument));
    },
  };
}

interface MetadataQuestion {
  readonly mints: readonly string[];
  readonly includeOffChain: boolean;
  readonly disableCache: boolean;
}

const MAX_MINTS = 100;

/** Checks a body in the words of this endpoint. Throws RequestError with status 400. */
function readBody(body: unknown): MetadataQuestion {
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
  const { properties, original: _, ...shown } = document;
  const creators = properties.creators?.map(({ address, share }) => ({
    address,
    share: shareAsNumber ? share : String(share),
  }));
  return { ...shown, properties: { ...properties, creators: creators ?? null } };
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
const sectionError = s.text('Empty, or UNKNOWN, EMPTY_ACCOUNT, TIMEOUT, INVALID_ACCOUNT, INVALID_PUBKEY', '');
const share = Type.Union([Type.String(), Type.Integer()], {
  description: 'Per cent; text unless configured otherwise',
  examples: ['100'],
});

const mintInfo = Type.Object(
  {
    decimals: s.count('Decimals', 6),
    freezeAuthority: s.text('Who may freeze; empty when nobody', '7dGbd2QZcCKcTndnHcTL8q7SMVXAkp688NTQYwrRCrar'),
    isInitialized: s.flag('Always true', true),
    mintAuthority: s.text('Who may mint; empty when nobody', 'BJE5MMbqXjVwjAF7oxwPYXnTXDyspzZyt4vwenNw5ruG'),
    supply: s.text('Raw units', '8211253893155842'),
  },
  { description: 'The mint' },
);

const accountInfo = Type.Object(
  {
    key: s.address('The mint', USDC_MINT),
    isSigner: s.flag('Always false'),
    isWritable: s.flag('Always false'),
    lamports: s.lamports('Lamports of the account', 428_310_452_133),
    data: Type.Object(
      {
        parsed: Type.Object({ info: mintInfo, type: s.text('Always mint', 'mint') }, { description: 'Decoded data' }),
        program: s.address('Address of the token program', TOKEN_PROGRAM),
        space: s.count('Bytes of the account', 82),
      },
      { description: 'Data of the account' },
    ),
    owner: s.address('Address of the token program', TOKEN_PROGRAM),
    executable: s.flag('Whether it is a program'),
    rentEpoch: s.u64('Rent epoch', 0),
  },
  { title: 'MintAccount', description: 'The account of the mint' },
);

const chainMetadata = Type.Object(
  {
    key: s.text('Kind of the metadata', 'MetadataV1'),
    updateAuthority: s.text('Who may change it; empty when nobody', '2wmVCSfPxGPjrnMMn7rchp4uaeoTqN39mXFC2zhPdri9'),
    mint: s.address('The mint', USDC_MINT),
    data: Type.Object(
      {
        name: s.text('Name', 'USD Coin'),
        symbol: s.text('Symbol', 'USDC'),
        uri: s.text('Address of the document', ''),
        sellerFeeBasisPoints: s.count('Royalty in basis points', 0),
        creators: nullable(
          Type.Array(
            Type.Object({
              address: s.address('The creator'),
              share,
              verified: s.flag('Whether the creator signed', true),
            }),
            { description: 'Creators' },
          ),
        ),
      },
      { description: 'What the issuer wrote' },
    ),
    primarySaleHappened: s.flag('Whether it was sold once'),
    isMutable: s.flag('Whether it can be changed', true),
    editionNonce: s.count('Nonce of the edition', 252),
    tokenStandard: s.text('Standard; empty when unknown', 'Fungible'),
    collection: nullable(
      Type.Object(
        { key: s.address('The collection'), verified: s.flag('Whether it is verified', true) },
        { description: 'The collection it belongs to' },
      ),
    ),
    collectionDetails: nullable(
      Type.Object({ size: s.count('Items of the collection', 0) }, { description: 'Of a collection itself' }),
    ),
    uses: Type.Object(
      {
        useMethod: s.text('Burn, Multiple, Single or empty', ''),
        remaining: s.count('Uses left', 0),
        total: s.count('All uses', 0),
      },
      { description: 'How often it can be used' },
    ),
  },
  { title: 'OnChainMetadata', description: 'Metadata on the chain' },
);

const document = Type.Object(
  {
    name: s.text('Name', 'USD Coin'),
    symbol: s.text('Symbol', 'USDC'),
    description: s.text('Description', 'A stable coin'),
    image: s.text('Image', 'https://example.org/usdc.png'),
    attributes: nullable(
      Type.Array(Type.Object({ traitType: s.text('Trait', 'Background'), value: s.text('Value', 'Blue') }), {
        description: 'Traits',
      }),
    ),
    sellerFeeBasisPoints: Type.Number({ description: 'Royalty in basis points', examples: [0] }),
    properties: Type.Object(
      {
        category: nullable(s.text('Kind of the file', 'image')),
        creators: nullable(
          Type.Array(Type.Object({ address: s.text('The creator', USDC_MINT), share }), { description: 'Creators' }),
        ),
        files: nullable(
          Type.Array(
            Type.Object({ uri: s.text('File', 'https://example.org/usdc.png'), type: s.text('Type', 'image/png') }),
            {
              description: 'Files',
            },
          ),
        ),
      },
      { description: 'More about it' },
    ),
  },
  { title: 'OffChainMetadata', description: 'The document that the uri points to' },
);

const listed = Type.Object(
  {
    chainId: s.count('Always 101', 101),
    address: s.text('The mint', USDC_MINT),
    symbol: s.text('Symbol', 'USDC'),
    name: s.text('Name', 'USD Coin'),
    decimals: s.count('Decimals', 6),
    logoURI: s.text('Image', 'https://example.org/usdc.png'),
    tags: Type.Array(Type.Unknown(), { description: 'Tags', examples: [['stablecoin']] }),
    extensions: Type.Record(Type.String(), Type.Unknown(), {
      description: 'More',
      examples: [{ coingeckoId: 'usd-coin' }],
    }),
  },
  { title: 'ListedToken', description: 'Entry of the old token list' },
);

/** What is no mint gets an element with an error. */
const questionSchema = Type.Object(
  {
    mintAccounts: Type.Array(s.text('Address of a mint', USDC_MINT), {
      maxItems: MAX_MINTS,
      description: 'Addresses of mints',
    }),
    includeOffChain: Type.Optional(s.orNull(s.flag('Also read what the uri points to; default false'))),
    disableCache: Type.Optional(s.orNull(s.flag('Read everything again; default false'))),
  },
  { description: 'The mints', examples: [{ mintAccounts: [USDC_MINT], includeOffChain: true }] },
);

const replySchema = Type.Array(
  Type.Object(
    {
      account: s.text('As it was asked for', USDC_MINT),
      onChainAccountInfo: Type.Object(
        { accountInfo: nullable(accountInfo), error: sectionError },
        { description: 'The account' },
      ),
      onChainMetadata: Type.Object(
        { metadata: nullable(chainMetadata), error: sectionError },
        { description: 'On the chain' },
      ),
      offChainMetadata: Type.Object(
        { metadata: nullable(document), uri: s.text('Address of the document', ''), error: sectionError },
        { description: 'The document, with includeOffChain' },
      ),
      legacyMetadata: nullable(listed),
    },
    { title: 'TokenMetadata', description: 'What is known of a mint' },
  ),
  { description: 'One element per requested mint, in order' },
);

const errorReply = Type.Object({ error: Type.String(), code: Type.Integer() });
