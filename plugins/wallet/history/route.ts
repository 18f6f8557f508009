import { Type } from '@sinclair/typebox';
import { defineRoute, type Route } from '../../../src/kernel/plugin.ts';
import { JsonText, json, RequestError } from '../../../src/kernel/request.ts';
import { lazy } from '../../../src/lib/lazy.ts';
import { transactionTypes } from '../../../src/solana/transaction-types.ts';
import { walletKey, walletParams } from '../input/address.ts';
import { pagination, WALLET_REFUSALS, WALLET_ROUTE } from '../input/common.ts';
import { checkSignatures, positionOfCursor } from '../input/cursor.ts';
import type { TokenWords } from '../input/token-words.ts';
import { CHANGED, NAMED, TOUCHED } from '../store/flags.ts';
import type { Digested, Digests } from '../tracking/digests.ts';
import type { OpenWallet } from '../tracking/open-wallet.ts';
import { incompleteHistory } from '../tracking/refusals.ts';
import type { WalletView } from '../tracking/view.ts';
import type { WholeAnswers } from '../tracking/whole-answers.ts';
import { type HistoryDigest, historyDigest, typedDigest } from './digest.ts';
import { historyElement } from './element.ts';
import { walkTransactions } from './walk.ts';

export interface HistoryContext {
  readonly open: OpenWallet;
  readonly digests: Digests;
  readonly answers: WholeAnswers;
  readonly words: TokenWords;
  readonly scanLimit: number;
}

const MASKS = { none: NAMED, balanceChanged: NAMED | CHANGED, all: NAMED | CHANGED | TOUCHED } as const;
const orNull = <T extends ReturnType<typeof Type.String> | ReturnType<typeof Type.Integer>>(schema: T) =>
  Type.Union([schema, Type.Null()]);

const element = Type.Object({
  signature: Type.String(),
  timestamp: orNull(Type.Integer({ description: 'unix seconds' })),
  slot: Type.Integer(),
  fee: Type.Number({ description: 'SOL' }),
  feePayer: Type.String(),
  error: orNull(Type.String()),
  balanceChanges: Type.Array(Type.Object({ mint: Type.String(), amount: Type.Number(), decimals: Type.Integer() })),
});

const types = lazy(() => new Set(transactionTypes()));

/** GET history: the transactions of a wallet with what they changed for it. */
export function historyRoute({ open, digests, answers, words, scanLimit }: HistoryContext): Route {
  const plain = digests.of(historyDigest);
  const typed = digests.of(typedDigest);
  return defineRoute({
    ...WALLET_ROUTE,
    method: 'GET',
    path: '/v1/wallet/:wallet/history',
    summary: 'Transactions of a wallet with their balance changes',
    params: walletParams,
    query: Type.Object({
      limit: Type.Integer({ minimum: 1, maximum: 100, default: 100 }),
      before: Type.Optional(Type.String({ description: 'signature; only older transactions' })),
      after: Type.Optional(
        Type.String({ description: 'signature; only newer transactions, oldest first without before' }),
      ),
      type: Type.Optional(Type.String({ description: 'only transactions of this type' })),
      tokenAccounts: Type.Union([Type.Literal('none'), Type.Literal('balanceChanged'), Type.Literal('all')], {
        default: 'balanceChanged',
        description: 'which transactions of token accounts of the wallet count',
      }),
    }),
    replies: { 200: Type.Object({ data: Type.Array(element), pagination }), ...WALLET_REFUSALS },
    async handler({ params, query: { limit, before, after, type, tokenAccounts }, signal }) {
      const key = walletKey(params.wallet);
      checkSignatures([before, after]);
      if (type !== undefined && !types().has(type))
        throw new RequestError(400, 'Invalid type', { details: `'${type.slice(0, 64)}' is no transaction type` });
      const question = `${params.wallet} ${limit} ${before} ${after} ${type} ${tokenAccounts}`;
      const known = answers.find(question);
      if (known !== undefined) return { status: 200, jsonBytes: known };
      const keep = answers.begin(question);
      const view = await open(key, params.wallet, signal);
      const below = before === undefined ? null : await positionOfCursor(view, before);
      const above = after === undefined ? null : await positionOfCursor(view, after);
      const found: Digested<HistoryDigest>[] = [];
      const range = {
        ...{ below, above, mask: MASKS[tokenAccounts], expected: limit + 1 },
        order: below === null && above !== null ? ('asc' as const) : ('desc' as const),
        most: type === undefined ? limit + 1 : Math.max(scanLimit, 1),
      };
      const end = await walkTransactions(view, range, type === undefined ? plain : typed, (one) => {
        if (type === undefined || one.digest.type === type) found.push(one);
        return found.length > limit;
      });
      const shown = found.slice(0, limit);
      if (shown.length === 0 && end.reason === 'pruned' && end.last === null)
        throw incompleteHistory(end.prunedBelow ?? 0);
      const hasMore = found.length > limit || end.reason !== 'complete';
      // Behind the last one shown, or where the search for a type gave up.
      const last = found.length > limit ? shown.at(-1)?.digest : end.last;
      const nextCursor = hasMore ? (last?.signature ?? null) : null;
      const texts = await elementTexts(view, shown, words, signal);
      const text = `{"data":[${texts.join()}],"pagination":${JSON.stringify({ hasMore, nextCursor })}}`;
      // It follows from the store and the facts of mints, and not from what the upstream lacks.
      if (view.isStored && end.reason !== 'pruned') keep(text);
      return json(new JsonText(text));
    },
  });
}

/** The elements as JSON: with the facts of mints whose amounts are not shown plainly. */
async function elementTexts(
  view: WalletView,
  shown: readonly Digested<HistoryDigest>[],
  words: TokenWords,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const mints = new Set<string>();
  for (const { digest } of shown) for (const mint of digest.mints) mints.add(mint);
  if (mints.size === 0) return shown.map(({ digest }) => digest.text);
  const facts = await words.needed([...mints], signal);
  const isScaled = (mint: string) => (facts.get(mint)?.scale ?? null) !== null;
  const scaled = shown.filter(({ digest }) => digest.mints.some(isScaled)).map(({ row }) => row);
  if (scaled.length === 0) return shown.map(({ digest }) => digest.text);
  const texts = new Map<number, string | null>(scaled.map(({ n }) => [n, null]));
  for (const loaded of await view.load(scaled))
    texts.set(loaded.n, JSON.stringify(historyElement(loaded, view.key, facts)));
  // Null: a fork took it away meanwhile.
  return shown.flatMap(({ row, digest }) => (texts.has(row.n) ? (texts.get(row.n) ?? []) : digest.text));
}
