import { decode, decode32, encode64 } from '../../src/lib/base58.ts';
import { isPlainObject } from '../../src/lib/json.ts';
import {
  defineRoute,
  type PluginContext,
  type Price,
  type Route,
  type Static,
  type Tag,
  Type,
} from '../../src/plugin/plugin.ts';
import { json, RequestError } from '../../src/plugin/request.ts';
import { keptAnswers } from '../../src/ports/address-history.ts';
import type { Commitment } from '../../src/ports/chain.ts';
import { kernelParsers } from '../../src/ports/parsers.ts';
import { tokenFacts, tokenNames } from '../../src/ports/tokens.ts';
import { peekWire } from '../../src/solana/decode/walk-wire.ts';
import { MAX_VERSION_1_BYTES } from '../../src/solana/decode/wire-layout.ts';
import type { ReadTransaction } from '../../src/solana/parsers/enhance.ts';
import { USDC_MINT } from '../../src/solana/programs.ts';
import { address, EXAMPLES, lamports, signature, slot, text, unixTime } from '../../src/solana/schemas.ts';
import type { EnhancedConfig } from './config.ts';
import {
  type Asker,
  createElements,
  createTransactions,
  type Elements,
  type SignaturePage,
  type SignatureRow,
  type Transactions,
} from './elements.ts';

export function provision(ctx: PluginContext<EnhancedConfig>): void {
  const transactions = createTransactions({
    chain: () => ctx.chain('main'),
    kept: ctx.use(keptAnswers) ?? null,
    random: ctx.random,
    config: ctx.config,
  });
  const elements = createElements({
    config: ctx.config,
    log: ctx.log,
    metrics: ctx.metrics,
    clock: ctx.clock,
    book: ctx.use(kernelParsers) ?? null,
    facts: ctx.use(tokenFacts) ?? null,
    names: ctx.use(tokenNames) ?? null,
  });
  const parts = { transactions, elements, config: ctx.config };
  ctx.http.route(transactionsRoute(parts));
  ctx.http.route(addressRoute(parts));
}

interface RouteParts {
  readonly transactions: Transactions;
  readonly elements: Elements;
  readonly config: EnhancedConfig;
}

const refusal = Type.Object({ error: Type.String(), code: Type.Integer() });

const ENHANCED: Tag = { name: 'Enhanced transactions', description: 'Transactions in readable form' };

/** Error responses. */
const REFUSALS = { 400: refusal, 401: refusal, 403: refusal, 429: refusal, 503: refusal, 504: refusal } as const;
const NOT_FOUND = { 404: refusal } as const;

/** One enhanced transaction. */
const OPEN = { additionalProperties: true } as const;
const enhancedSchema = Type.Object(
  {
    description: text('What happened, as a sentence', '86xCn…2MMY transferred 1.5 SOL to 9B5Xs…Ns6g.'),
    type: text('Type of the transaction', 'TRANSFER'),
    source: text('Program or marketplace', 'SYSTEM_PROGRAM'),
    fee: lamports('Fee in lamports', 5_000),
    feePayer: address('Who paid the fee'),
    signature: signature(),
    slot: slot(),
    timestamp: unixTime(),
    tokenTransfers: Type.Array(
      Type.Object(
        {
          fromUserAccount: text('Owner that sent; empty for mints', EXAMPLES.address),
          toUserAccount: text('Owner that received; empty for burns', EXAMPLES.counterparty),
          mint: text('Mint', USDC_MINT),
          tokenAmount: Type.Number({ description: 'Whole tokens', examples: [12.5] }),
        },
        OPEN,
      ),
      { description: 'Transfers of tokens' },
    ),
    nativeTransfers: Type.Array(
      Type.Object(
        {
          fromUserAccount: text('Account that sent', EXAMPLES.address),
          toUserAccount: text('Account that received', EXAMPLES.counterparty),
          amount: lamports(),
        },
        OPEN,
      ),
      { description: 'Transfers of SOL' },
    ),
    accountData: Type.Array(
      Type.Object(
        {
          account: text('Account', EXAMPLES.address),
          nativeBalanceChange: Type.Integer({
            format: 'int64',
            description: 'Lamports gained or lost',
            examples: [-1_500_005_000],
          }),
          tokenBalanceChanges: Type.Array(Type.Object({}, OPEN), {
            description: 'Tokens gained or lost',
            examples: [[]],
          }),
        },
        OPEN,
      ),
      { description: 'What each account gained and lost' },
    ),
    transactionError: Type.Union([Type.Null(), Type.Object({}, OPEN)], {
      description: 'Why it failed; null when it did not',
    }),
    instructions: Type.Array(Type.Object({}, OPEN), {
      description: 'Instructions with their inner ones',
      examples: [[]],
    }),
    events: Type.Object({}, { ...OPEN, description: 'Swaps, sales and others by name' }),
  },
  { title: 'EnhancedTransaction', description: 'An enhanced transaction' },
);

const commitmentQuery = Type.Optional(
  Type.Union([Type.Literal('confirmed'), Type.Literal('finalized')], { description: 'Default confirmed' }),
);

/** Time for everything besides waiting for the upstream. */
const MARGIN_MS = 5_000;

const MAX_TRANSACTIONS = 100;

/** `credits` may be reloaded, so it is read with each request. */
const priceOf = (config: RouteParts['config'], more: Pick<Price, 'chargedStatuses'> = {}): Price => ({
  ...more,
  product: 'enhancedApi',
  get credits() {
    return config.credits;
  },
  groups: ['das'],
});

/** `POST /v0/transactions`: up to 100 transactions by signature. Transactions that the chain does not have are omitted. */
function transactionsRoute({ transactions, elements, config }: RouteParts): Route {
  return defineRoute({
    method: 'POST',
    path: '/v0/transactions',
    summary: 'Effects of up to 100 transactions',
    tag: ENHANCED,
    auth: 'key',
    errors: 'plain',
    price: priceOf(config),
    get timeoutMs() {
      const rounds = Math.ceil(MAX_TRANSACTIONS / config.concurrency);
      return Math.min(rounds * config.upstreamTimeoutMs, 120_000) + config.namesTimeoutMs + MARGIN_MS;
    },
    query: Type.Object({ commitment: commitmentQuery }),
    body: transactionsBody,
    explain: readBody,
    replies: {
      200: Type.Array(enhancedSchema, { description: 'The transactions that the chain has, in order' }),
      ...REFUSALS,
    },
    async handler({ body, query, signal, tenant }) {
      const signatures = readBody(body);
      const distinct = [...new Set(signatures)];
      const found = await transactions.fetch(distinct, query.commitment ?? 'confirmed', { signal, tenant });
      const bySignature = new Map(distinct.map((signature, at) => [signature, found[at] ?? null]));
      const read = signatures.flatMap((signature) => {
        const fetched = bySignature.get(signature) ?? null;
        return fetched === null ? [] : [elements.read(fetched)];
      });
      return json(await elements.write(read, tenant));
    },
  });
}

/** What is neither a signature nor a transaction is refused when it is read. */
const transactionsBody = Type.Object(
  {
    transactions: Type.Array(signatureOrTransaction(), {
      maxItems: MAX_TRANSACTIONS,
      description: 'Signatures in base58, or signed transactions in base64',
    }),
  },
  { description: 'The transactions' },
);

function signatureOrTransaction() {
  const [example] = signature().examples as readonly string[];
  return text('Signature in base58, or signed transaction in base64', example as string);
}

function readBody(body: unknown): readonly string[] {
  const given = isPlainObject(body) ? body['transactions'] : undefined;
  if (!Array.isArray(given) || given.some((item) => typeof item !== 'string'))
    throw new RequestError(400, `transactions must be an array of at most ${MAX_TRANSACTIONS} strings`);
  if (given.length > MAX_TRANSACTIONS)
    throw new RequestError(400, `at most ${MAX_TRANSACTIONS} transactions per request, got ${given.length}`);
  return given.map((text: string, at) => {
    const signature = signatureOf(text);
    if (signature === null)
      throw new RequestError(400, `transactions[${at}] is neither a signature nor a signed transaction in base64`);
    return signature;
  });
}

const SIGNATURE_BYTES = 64;
const MAX_SIGNATURE_CHARS = 88;
const MAX_TRANSACTION_CHARS = Math.ceil(MAX_VERSION_1_BYTES / 3) * 4;
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/;

/** The signature in a text, or the first signature of the signed transaction in it; null otherwise. */
function signatureOf(text: string): string | null {
  if (text.length <= MAX_SIGNATURE_CHARS) return decode(text)?.length === SIGNATURE_BYTES ? text : null;
  if (text.length > MAX_TRANSACTION_CHARS || !BASE64.test(text)) return null;
  const bytes = Buffer.from(text, 'base64');
  const [count = 0] = bytes;
  // From version 1 on the signatures come last, and the part before them determines where they start.
  if (count > 0x80) return version1Signature(bytes);
  const isOne = count >= 1 && count <= 19 && bytes.length > 1 + count * SIGNATURE_BYTES;
  return isOne ? encode64(bytes, 1) : null;
}

function version1Signature(bytes: Uint8Array): string | null {
  try {
    return peekWire(bytes).signature;
  } catch {
    return null;
  }
}

const MAX_PAGE = 1_000;
const MAX_TIMEOUT_MS = 120_000;

interface HistoryFilter {
  readonly question: HistoryQuestion;
  readonly limit: number;
  readonly accepts: (transaction: ReadTransaction) => boolean;
}

/** `GET /v0/addresses/{address}/transactions`: the newest transactions of an address, newest first. */
function addressRoute(parts: RouteParts): Route {
  const { config } = parts;
  return defineRoute({
    method: 'GET',
    path: '/v0/addresses/:address/transactions',
    summary: 'Effects of the newest transactions of an address',
    tag: ENHANCED,
    auth: 'key',
    errors: 'plain',
    price: priceOf(config, { chargedStatuses: [404] }),
    timeoutMs: MAX_TIMEOUT_MS + MARGIN_MS,
    params: Type.Object({ address: Type.String() }),
    documented: {
      params: { address: address('Address, base58') },
    },
    query: addressQuery,
    replies: {
      200: Type.Array(enhancedSchema, { description: 'Transactions of the address' }),
      ...NOT_FOUND,
      ...REFUSALS,
    },
    async handler({ params, query, signal, tenant }) {
      if (decode32(params.address) === null) throw new RequestError(400, 'address is not a valid Solana address');
      const [type, source] = [query.type?.toUpperCase(), query.source?.toUpperCase()];
      const accepts = (one: ReadTransaction): boolean =>
        (type === undefined || type === 'ANY' || one.type === type) && (source === undefined || one.source === source);
      const window = windowOf(query);
      const limit = query.limit ?? MAX_LIMIT;
      const isAscending = query['sort-order'] === 'asc';
      const question: HistoryQuestion = {
        address: params.address,
        window,
        commitment: query.commitment ?? 'confirmed',
        before: signatureParam('before', query.before ?? query['before-signature']),
        until: signatureParam('until', query.until ?? query['after-signature']),
        // Skipped rows are only listed, not read.
        pageSize: isAscending || window.toSlot !== null || window.toTime !== null ? MAX_PAGE : limit,
      };
      const wanted: HistoryFilter = { question, limit, accepts };
      const { found, firstSlot } = await (isAscending
        ? fromOldest(parts, wanted, { signal, tenant })
        : fromNewest(parts, wanted, { signal, tenant }));
      const headers = firstSlot === null ? {} : { 'x-first-slot': String(firstSlot) };
      return json(await parts.elements.write(found, tenant), 200, headers);
    },
  });
}

function signatureParam(name: string, text: string | undefined): string | null {
  if (text === undefined || text === '') return null;
  if (text.length <= 88 && decode(text)?.length === SIGNATURE_BYTES) return text;
  throw new RequestError(400, `${name} is not a transaction signature`);
}

/** Transactions that match; `firstSlot` as in `SignaturePage`. */
interface FoundTransactions {
  readonly found: readonly ReadTransaction[];
  readonly firstSlot: number | null;
}

/** Reads until enough transactions match, the address has no more, or the limit is reached. */
async function fromNewest(
  { transactions, elements, config }: RouteParts,
  { question, limit, accepts }: HistoryFilter,
  asker: Asker,
): Promise<FoundTransactions> {
  const reader = createReader({ transactions, elements, commitment: question.commitment, asker });
  const found: ReadTransaction[] = [];
  let looked = 0;
  let end: number | null = null;
  for await (const { rows, last, firstSlot } of newestFirst(transactions, question, asker)) {
    end = firstSlot;
    for (let at = 0; at < rows.length && found.length < limit; at += limit) {
      const read = await reader(rows.slice(at, at + limit));
      found.push(...read.filter(accepts).slice(0, limit - found.length));
      looked += read.length;
    }
    if (found.length >= limit) return { found, firstSlot: null };
    if (looked < Math.max(config.scanLimit, limit)) continue;
    if (found.length > 0) return { found, firstSlot: end };
    throw new RequestError(
      404,
      `No such transaction among those that were looked through. To search on, set \`before\` to ${last}`,
    );
  }
  return { found, firstSlot: end };
}

async function fromOldest(
  { transactions, elements, config }: RouteParts,
  { question, limit, accepts }: HistoryFilter,
  asker: Asker,
): Promise<FoundTransactions> {
  const reader = createReader({ transactions, elements, commitment: question.commitment, asker });
  const { rows, firstSlot } = await oldestFirst(transactions, question, config.sortLimit, asker);
  const found: ReadTransaction[] = [];
  for (let at = 0; at < Math.min(rows.length, Math.max(config.scanLimit, limit)) && found.length < limit; at += limit)
    found.push(...(await reader(rows.slice(at, at + limit))).filter(accepts).slice(0, limit - found.length));
  return { found, firstSlot };
}

interface ReaderParts extends Pick<RouteParts, 'transactions' | 'elements'> {
  readonly commitment: Commitment;
  readonly asker: Asker;
}

function createReader({ transactions, elements, commitment, asker }: ReaderParts) {
  return async (rows: readonly SignatureRow[]): Promise<readonly ReadTransaction[]> => {
    const signatures = rows.map(({ signature }) => signature);
    const fetched = await transactions.fetch(signatures, commitment, asker);
    return fetched.map((one) => {
      if (one !== null) return elements.read(one);
      // A node that lists a transaction it does not have has pruned it: an answer without the transaction would be wrong.
      throw new RequestError(503, 'Incomplete history: the upstream lacks a transaction that it lists');
    });
  };
}

const MAX_LIMIT = 100;

const optionalText = (description: string) => Type.Optional(Type.String({ description }));
const bound = (description: string) => Type.Optional(Type.Integer({ minimum: 0, description }));

const addressQuery = Type.Object({
  before: optionalText('Signature; older ones than this'),
  until: optionalText('Signature; newer ones than this'),
  'before-signature': optionalText('The same as `before`'),
  'after-signature': optionalText('The same as `until`'),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: MAX_LIMIT, description: 'Default 100' })),
  type: optionalText('Only transactions of this type'),
  source: optionalText('Only transactions of this source'),
  commitment: commitmentQuery,
  'gt-slot': bound('Later than this slot'),
  'gte-slot': bound('Not earlier than this slot'),
  'lt-slot': bound('Earlier than this slot'),
  'lte-slot': bound('Not later than this slot'),
  'gt-time': bound('Later than this, Unix seconds'),
  'gte-time': bound('Not earlier than this, Unix seconds'),
  'lt-time': bound('Earlier than this, Unix seconds'),
  'lte-time': bound('Not later than this, Unix seconds'),
  'sort-order': Type.Optional(
    Type.Union([Type.Literal('asc'), Type.Literal('desc')], { description: 'Default desc: newest first' }),
  ),
});

type AddressQuery = Static<typeof addressQuery>;

/** When two bounds of one kind are given, both apply. */
function windowOf(query: AddressQuery): Window {
  return {
    fromSlot: highest(above(query['gt-slot']), query['gte-slot']),
    toSlot: lowest(below(query['lt-slot']), query['lte-slot']),
    fromTime: highest(above(query['gt-time']), query['gte-time']),
    toTime: lowest(below(query['lt-time']), query['lte-time']),
  };
}

const above = (value: number | undefined) => (value === undefined ? undefined : value + 1);
const below = (value: number | undefined) => (value === undefined ? undefined : value - 1);

function highest(...given: readonly (number | undefined)[]): number | null {
  const values = given.filter((value) => value !== undefined);
  return values.length === 0 ? null : Math.max(...values);
}

function lowest(...given: readonly (number | undefined)[]): number | null {
  const values = given.filter((value) => value !== undefined);
  return values.length === 0 ? null : Math.min(...values);
}

interface HistoryQuestion {
  readonly address: string;
  readonly before: string | null;
  readonly until: string | null;
  readonly commitment: Commitment;
  readonly window: Window;
  /** Rows of one call to the upstream. */
  readonly pageSize: number;
}

/** Pages of the signatures of an address within the window, newest first; a page may be empty. Ends with the history. */
async function* newestFirst(
  transactions: Transactions,
  { address, before: from, until, commitment, window, pageSize }: HistoryQuestion,
  asker: Asker,
): AsyncGenerator<SignaturePage & { readonly last: string | null }> {
  let minSlot: number | null = null;
  for (let before = from; ; ) {
    const page = await transactions.page(address, { before, until, limit: pageSize, commitment, minSlot }, asker);
    const last = page.rows.at(-1);
    const rows = page.rows.filter((row) => !isAbove(row, window) && !isBelow(row, window));
    // What lies below the window is not missed.
    const isPast = (last !== undefined && isBelow(last, window)) || (window.fromSlot ?? -1) >= (page.firstSlot ?? 0);
    yield { rows, last: last?.signature ?? before, firstSlot: isPast ? null : page.firstSlot };
    if (last === undefined || page.rows.length < pageSize || isBelow(last, window)) return;
    before = last.signature;
    minSlot = last.slot;
  }
}

/**
 * The signatures of an address within the window, oldest first. The upstream only lists backwards, so all are listed first; errors:
 * RequestError 400 when there are more than `maxRows`.
 */
async function oldestFirst(
  transactions: Transactions,
  question: HistoryQuestion,
  maxRows: number,
  asker: Asker,
): Promise<SignaturePage> {
  const rows: SignatureRow[] = [];
  let firstSlot: number | null = null;
  let listed = 0;
  for await (const page of newestFirst(transactions, question, asker)) {
    rows.push(...page.rows);
    firstSlot = page.firstSlot;
    listed += question.pageSize;
    if (listed > maxRows)
      throw new RequestError(400, 'sort-order asc: too many transactions; give after-signature, gt-slot or gt-time');
  }
  return { rows: rows.reverse(), firstSlot };
}

/** Bounds of a history, all inclusive; null: unbounded. */
interface Window {
  readonly fromSlot: number | null;
  readonly toSlot: number | null;
  /** Unix seconds. */
  readonly fromTime: number | null;
  readonly toTime: number | null;
}

/** Newer than the window: older rows may still be in it. */
function isAbove({ slot, blockTime }: SignatureRow, { toSlot, toTime }: Window): boolean {
  return (toSlot !== null && slot > toSlot) || (toTime !== null && blockTime != null && blockTime > toTime);
}

/** Older than the window, like all rows after it. */
function isBelow({ slot, blockTime }: SignatureRow, { fromSlot, fromTime }: Window): boolean {
  return (fromSlot !== null && slot < fromSlot) || (fromTime !== null && blockTime != null && blockTime < fromTime);
}
