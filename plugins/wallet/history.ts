import { Type } from '@sinclair/typebox';
import { LRUCache } from 'lru-cache';
import { lazy } from '../../src/lib/lazy.ts';
import { type ChainReader, defineRoute, type Route, type Store } from '../../src/plugin/plugin.ts';
import { JsonText, json, RequestError } from '../../src/plugin/request.ts';
import type { MintFacts } from '../../src/ports/tokens.ts';
import { plainAmount, uiAmount } from '../../src/solana/accounts/amounts.ts';
import { nativeChange, tokenChanges } from '../../src/solana/movements/movement.ts';
import { createTransactionView, DEFAULT_OPTIONS } from '../../src/solana/parsers/parser.ts';
import { classify, PARSERS } from '../../src/solana/parsers/registry.ts';
import { TOKEN_PROGRAM } from '../../src/solana/programs.ts';
import { address, count, orNull, signature, slot, text, unixTime } from '../../src/solana/schemas.ts';
import { transactionTypes } from '../../src/solana/transaction-types.ts';
import type { WalletConfig } from './config.ts';
import { CHANGED, NAMED, TOUCHED } from './store/tables.ts';
import {
  type DerivedKind,
  type DerivedRow,
  type DerivedRows,
  type WithDerived,
  walkTransactions,
} from './tracking/derived-rows.ts';
import type { OpenWallet } from './tracking/tracker.ts';
import { incompleteHistory, isChainFresh, type LoadedRow, type WalletView } from './tracking/view.ts';
import {
  checkSignatures,
  type MintFactsReader,
  pagination,
  positionOfCursor,
  WALLET_REFUSALS,
  WALLET_ROUTE,
  walletKey,
  walletParams,
} from './wallet-route.ts';

interface HistoryContext {
  readonly open: OpenWallet;
  readonly derivedRows: DerivedRows;
  readonly responses: ResponseCache;
  readonly mintFacts: MintFactsReader;
  readonly config: Pick<WalletConfig, 'scanLimit'>;
}

const MASKS = { none: NAMED, balanceChanged: NAMED | CHANGED, all: NAMED | CHANGED | TOUCHED } as const;

export const historyReply = Type.Object(
  {
    signature: signature(),
    timestamp: orNull(unixTime()),
    slot: slot(),
    fee: Type.Number({ description: 'Fee in SOL', examples: [0.000005] }),
    feePayer: address('Who paid the fee'),
    error: orNull(text('Error of the transaction', 'InsufficientFundsForFee')),
    balanceChanges: Type.Array(
      Type.Object({
        mint: text('Mint, or SOL', 'SOL'),
        amount: Type.Number({ description: 'Change in whole tokens', examples: [-1.5] }),
        decimals: count('Decimals of the mint', 9),
      }),
      { description: 'What the wallet gained and lost' },
    ),
  },
  { title: 'WalletTransaction', description: 'A transaction of the wallet' },
);

const types = lazy(() => new Set(transactionTypes()));

/** GET history: the transactions of a wallet with its balance changes. */
export function walletHistoryRoute({ open, derivedRows, responses, mintFacts, config }: HistoryContext): Route {
  const plain = derivedRows.of(historyRow);
  const typed = derivedRows.of(typedRow);
  return defineRoute({
    ...WALLET_ROUTE,
    method: 'GET',
    path: '/v1/wallet/:wallet/history',
    summary: 'Transactions of a wallet with their balance changes',
    params: walletParams,
    query: Type.Object({
      limit: Type.Integer({ minimum: 1, maximum: 100, default: 100, description: 'Transactions of a page' }),
      before: Type.Optional(Type.String({ description: 'Signature; only older transactions' })),
      after: Type.Optional(
        Type.String({ description: 'Signature; only newer transactions, oldest first without before' }),
      ),
      type: Type.Optional(Type.String({ description: 'Only transactions of this type', examples: ['TRANSFER'] })),
      tokenAccounts: Type.Union([Type.Literal('none'), Type.Literal('balanceChanged'), Type.Literal('all')], {
        default: 'balanceChanged',
        description: 'Which transactions of token accounts of the wallet count',
      }),
    }),
    replies: {
      200: Type.Object(
        { data: Type.Array(historyReply, { description: 'Transactions, newest first' }), pagination },
        { description: 'A page of transactions' },
      ),
      ...WALLET_REFUSALS,
    },
    async handler({ params, query: { limit, before, after, type, tokenAccounts }, caller, signal }) {
      const key = walletKey(params.wallet);
      checkSignatures([before, after]);
      if (type !== undefined && !types().has(type))
        throw new RequestError(400, 'Invalid type', { details: `'${type.slice(0, 64)}' is no transaction type` });
      const question = `${params.wallet} ${limit} ${before} ${after} ${type} ${tokenAccounts}`;
      const known = responses.find(question);
      if (known !== undefined) return { status: 200, jsonBytes: known };
      const keep = responses.begin(question);
      const view = await open(key, params.wallet, { caller, signal });
      const below = before === undefined ? null : await positionOfCursor(view, before, 'older');
      const above = after === undefined ? null : await positionOfCursor(view, after, 'newer');
      const found: WithDerived<DerivedHistoryRow>[] = [];
      const range = {
        below,
        above,
        mask: MASKS[tokenAccounts],
        expected: limit + 1,
        order: below === null && above !== null ? ('asc' as const) : ('desc' as const),
        most: type === undefined ? limit + 1 : Math.max(config.scanLimit, 1),
      };
      const end = await walkTransactions(view, range, type === undefined ? plain : typed, (one) => {
        if (type === undefined || one.derived.type === type) found.push(one);
        return found.length > limit;
      });
      const shown = found.slice(0, limit);
      for (const { row, derived } of shown) view.noteShown(derived.signature, row.n);
      if (shown.length === 0 && end.reason === 'pruned' && end.last === null)
        throw incompleteHistory(end.prunedBelow ?? 0);
      const hasMore = found.length > limit || end.reason !== 'complete';
      // After the last one returned, or at the end of the search for a type.
      const last = found.length > limit ? shown.at(-1)?.derived : end.last;
      const nextCursor = hasMore ? (last?.signature ?? null) : null;
      const texts = await elementTexts(view, shown, mintFacts, signal);
      const text = `{"data":[${texts.join()}],"pagination":${JSON.stringify({ hasMore, nextCursor })}}`;
      // The response depends only on the store and the facts of mints, not on gaps of the upstream.
      if (view.isStored() && end.reason !== 'pruned') keep(text);
      return json(new JsonText(text));
    },
  });
}

/** The elements as JSON, with the facts of mints whose amounts are scaled. */
async function elementTexts(
  view: WalletView,
  shown: readonly WithDerived<DerivedHistoryRow>[],
  mintFacts: MintFactsReader,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const mints = new Set<string>();
  for (const { derived } of shown) for (const mint of derived.mints) mints.add(mint);
  if (mints.size === 0) return shown.map(({ derived }) => derived.text);
  const facts = await mintFacts.needed([...mints], signal);
  const isScaled = (mint: string) => (facts.get(mint)?.scale ?? null) !== null;
  const scaled = shown.filter(({ derived }) => derived.mints.some(isScaled)).map(({ row }) => row);
  if (scaled.length === 0) return shown.map(({ derived }) => derived.text);
  const texts = new Map<number, string | null>(scaled.map(({ n }) => [n, null]));
  for (const loaded of await view.load(scaled))
    texts.set(loaded.n, JSON.stringify(historyElement(loaded, view.key, facts)));
  // Null: a reorg removed it in the meantime.
  return shown.flatMap(({ row, derived }) => (texts.has(row.n) ? (texts.get(row.n) ?? []) : derived.text));
}

/** An element of a page, complete unless a mint of it may scale amounts (interest or a multiplier). */
interface DerivedHistoryRow extends DerivedRow {
  /** JSON, with plain amounts. */
  readonly text: string;
  /** These mints. */
  readonly mints: readonly string[];
  /** Null when it was not requested. */
  readonly type: string | null;
}

const NO_FACTS = new Map();
const NONE: readonly string[] = [];

function deriveRow(loaded: LoadedRow, view: WalletView, type: string | null): DerivedHistoryRow {
  const mints = scaledMints(loaded);
  return {
    signature: loaded.signature,
    text: JSON.stringify(historyElement(loaded, view.key, NO_FACTS)),
    mints: mints.length === 0 ? NONE : mints,
    type,
  };
}

const typeOf = ({ tx, block }: LoadedRow): string =>
  classify(createTransactionView(tx, block, DEFAULT_OPTIONS), PARSERS).type;
const bytesOf = ({ text, signature, mints }: DerivedHistoryRow): number =>
  text.length + signature.length + mints.length * 60;

export const historyRow: DerivedKind<DerivedHistoryRow> = {
  name: 'h',
  bytesOf,
  make: (loaded, view) => deriveRow(loaded, view, null),
};

/** A history row with the transaction type, which doubles the work. */
const typedRow: DerivedKind<DerivedHistoryRow> = {
  name: 't',
  bytesOf,
  make: (loaded, view) => deriveRow(loaded, view, typeOf(loaded)),
};

interface BalanceChange {
  readonly mint: string;
  readonly amount: number;
  readonly decimals: number;
}

interface HistoryTransaction {
  readonly signature: string;
  readonly timestamp: number | null;
  readonly slot: number;
  /** SOL */
  readonly fee: number;
  readonly feePayer: string;
  readonly error: string | null;
  readonly balanceChanges: readonly BalanceChange[];
}

const SOL_DECIMALS = 9;

/** Effects of one transaction on a wallet. `facts` of mints whose amounts may be scaled. */
export function historyElement(
  loaded: LoadedRow,
  wallet: Uint8Array,
  facts: ReadonlyMap<string, MintFacts>,
): HistoryTransaction {
  const { tx, block, signature, slot, time } = loaded;
  return {
    signature,
    timestamp: time,
    slot,
    fee: Number(plainAmount(BigInt(tx.fee), SOL_DECIMALS)),
    feePayer: block.keys.base58(tx.keys[0] ?? 0),
    error: errorText(tx.error),
    balanceChanges: [...solChange(loaded, wallet), ...tokenRows(loaded, wallet, facts)],
  };
}

function errorText(error: unknown): string | null {
  if (error === null || error === undefined) return null;
  return typeof error === 'string' ? error : JSON.stringify(error);
}

function solChange({ tx, block }: LoadedRow, wallet: Uint8Array): BalanceChange[] {
  const account = tx.keys.indexOf(block.keys.find(wallet));
  const change = account < 0 ? 0 : nativeChange(tx, account);
  if (change === 0) return [];
  return [{ mint: 'SOL', amount: Number(plainAmount(BigInt(change), SOL_DECIMALS)), decimals: SOL_DECIMALS }];
}

/** Sums over the accounts of the wallet, in order of first appearance. */
function tokenRows(
  { tx, block, time }: LoadedRow,
  wallet: Uint8Array,
  facts: ReadonlyMap<string, MintFacts>,
): BalanceChange[] {
  const owner = block.keys.find(wallet);
  const sums = new Map<number, { raw: bigint; readonly decimals: number }>();
  for (const change of tokenChanges(tx)) {
    if (change.owner !== owner || change.mint < 0) continue;
    const sum = sums.get(change.mint);
    if (sum === undefined) sums.set(change.mint, { raw: change.change, decimals: change.decimals });
    else sum.raw += change.change;
  }
  return [...sums]
    .filter(([, { raw }]) => raw !== 0n)
    .map(([mint, { raw, decimals }]) => {
      const text = block.keys.base58(mint);
      return {
        mint: text,
        amount: Number(uiAmount(raw, decimals, facts.get(text)?.scale ?? null, time ?? 0)),
        decimals,
      };
    });
}

/** Mints of a transaction whose amounts may be scaled (interest or a multiplier): those of other programs than SPL Token. */
export function scaledMints({ tx, block }: LoadedRow): string[] {
  const { keys } = block;
  return [...tx.preTokenBalances, ...tx.postTokenBalances]
    .filter(({ mintKey, programKey }) => mintKey >= 0 && programKey >= 0 && keys.base58(programKey) !== TOKEN_PROGRAM)
    .map(({ mintKey }) => keys.base58(mintKey));
}

/**
 * Finished responses that depend only on the store and the facts of mints. One is valid until the next commit or the next change of
 * facts: it serves repeated requests for a page between two commits. Without a store version nothing is kept.
 */
interface ResponseCache {
  /** JSON; undefined on a miss. */
  find(question: string): Uint8Array | undefined;
  /** Called before any read. The returned function stores the response. */
  begin(question: string): (text: string) => void;
}

interface ResponseCacheParts {
  readonly store: Store;
  readonly chain: ChainReader | null;
  readonly mintFacts: Pick<MintFactsReader, 'revision'>;
  readonly maxBytes: number;
}

interface CachedPage {
  readonly bytes: Uint8Array;
  readonly version: number;
  readonly revision: number;
}

const ENTRY_BYTES = 400;
const NOTHING = (): void => undefined;

export function createResponseCache({ store, chain, mintFacts, maxBytes }: ResponseCacheParts): ResponseCache {
  const kept = new LRUCache<string, CachedPage>({
    maxSize: maxBytes,
    sizeCalculation: ({ bytes }, question) => bytes.length + question.length + ENTRY_BYTES,
  });
  return {
    find(question) {
      const one = kept.get(question);
      if (one === undefined || chain === null) return undefined;
      const status = chain.status();
      if (!isChainFresh(status, status.cursorSlot)) return undefined;
      return one.revision === mintFacts.revision() && one.version === store.version() ? one.bytes : undefined;
    },
    begin(question) {
      const version = store.version();
      const revision = mintFacts.revision();
      if (version === null) return NOTHING;
      return (text) => void kept.set(question, { bytes: Buffer.from(text), version, revision });
    },
  };
}
