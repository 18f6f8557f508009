import { Type } from '@sinclair/typebox';
import { defineRoute, type Route } from '../../../src/kernel/plugin.ts';
import { JsonText, json, RequestError } from '../../../src/kernel/request.ts';
import { WRAPPED_SOL_MINT } from '../../../src/solana/address/known-programs.ts';
import { walkTransactions } from '../history/walk.ts';
import { walletKey, walletParams } from '../input/address.ts';
import { pagination, WALLET_REFUSALS, WALLET_ROUTE } from '../input/common.ts';
import { isSignature, positionOfCursor } from '../input/cursor.ts';
import type { TokenWords } from '../input/token-words.ts';
import { CHANGED, NAMED, TOUCHED } from '../store/flags.ts';
import type { Digest, Digests } from '../tracking/digests.ts';
import type { OpenWallet } from '../tracking/open-wallet.ts';
import { incompleteHistory } from '../tracking/refusals.ts';
import type { WalletView } from '../tracking/view.ts';
import { type Transfer, type TransfersDigest, transfersDigest, transferText } from './digest.ts';

export interface TransfersContext {
  readonly open: OpenWallet;
  readonly digests: Digests;
  readonly words: TokenWords;
  readonly scanLimit: number;
}

interface Found {
  readonly digest: TransfersDigest;
  readonly transfer: Transfer;
  /** Of those of its transaction. */
  readonly at: number;
}

const transfer = Type.Object({
  signature: Type.String(),
  timestamp: Type.Union([Type.Integer({ description: 'unix seconds' }), Type.Null()]),
  direction: Type.Union([Type.Literal('in'), Type.Literal('out')]),
  counterparty: Type.String({ description: 'empty for mints and burns' }),
  mint: Type.String(),
  symbol: Type.Union([Type.String(), Type.Null()]),
  amount: Type.Number(),
  amountRaw: Type.String(),
  decimals: Type.Integer(),
});

const CURSOR = /^([1-9A-HJ-NP-Za-km-z]{64,88})(?:-(\d{1,6}))?$/;

/** GET transfers: every movement of SOL and tokens to and from a wallet. */
export function transfersRoute({ open, digests, words, scanLimit }: TransfersContext): Route {
  const read = digests.of(transfersDigest);
  return defineRoute({
    ...WALLET_ROUTE,
    method: 'GET',
    path: '/v1/wallet/:wallet/transfers',
    summary: 'Transfers to and from a wallet',
    params: walletParams,
    query: Type.Object({
      limit: Type.Integer({ minimum: 1, maximum: 100, default: 50 }),
      cursor: Type.Optional(Type.String({ description: 'nextCursor of the page before' })),
    }),
    replies: { 200: Type.Object({ data: Type.Array(transfer), pagination }), ...WALLET_REFUSALS },
    async handler({ params, query: { limit, cursor }, signal }) {
      const key = walletKey(params.wallet);
      const place = cursor === undefined ? null : readCursor(cursor);
      const view = await open(key, params.wallet, signal);
      const start = place === null ? null : await positionOfCursor(view, place.signature);
      const skipped = place?.row ?? null;
      const found: Found[] = [];
      const range = {
        ...{ above: null, mask: NAMED | CHANGED | TOUCHED, order: 'desc' as const },
        // With the number of a row the transaction itself is read again.
        below: start === null ? null : skipped === null ? start : start + 1,
        ...{ most: scanLimit, expected: limit + 1 },
      };
      const end = await walkTransactions(view, range, read, ({ row, digest }) => {
        const first = row.n === start ? (skipped ?? 0) : 0;
        digest.transfers.forEach((transfer, at) => {
          if (at >= first) found.push({ digest, transfer, at });
        });
        return found.length > limit;
      });
      const shown = found.slice(0, limit);
      if (shown.length === 0 && end.reason === 'pruned' && end.last === null)
        throw incompleteHistory(end.prunedBelow ?? 0);
      const hasMore = found.length > limit || end.reason !== 'complete';
      const page = { hasMore, nextCursor: hasMore ? nextCursor(found, limit, end.last) : null };
      const texts = await elementTexts(view, shown, words, signal);
      return json(new JsonText(`{"data":[${texts.join()}],"pagination":${JSON.stringify(page)}}`));
    },
  });
}

function readCursor(text: string): { readonly signature: string; readonly row: number | null } {
  const [, signature = '', row] = CURSOR.exec(text) ?? [];
  if (!isSignature(signature)) throw new RequestError(400, 'Invalid cursor');
  return { signature, row: row === undefined ? null : Number(row) };
}

/** Behind the last row that is shown: within its transaction, or behind it; or where the search gave up. */
function nextCursor(found: readonly Found[], limit: number, last: Digest | null): string | null {
  const next = found[limit];
  const shown = found[limit - 1];
  if (next === undefined || shown === undefined) return last?.signature ?? null;
  const { signature } = shown.digest;
  return next.digest === shown.digest ? `${signature}-${next.at}` : signature;
}

async function elementTexts(view: WalletView, shown: readonly Found[], words: TokenWords, signal: AbortSignal) {
  const mints = [...new Set(shown.map(({ transfer }) => transfer.mint))].filter((mint) => mint !== WRAPPED_SOL_MINT);
  const needs = shown.some(
    ({ transfer }) => transfer.isFeeUnknown || transfer.decimals === null || transfer.mayBeScaled,
  );
  const facts = await (needs ? words.needed(mints, signal) : words.known(mints, signal));
  const times = new Map<number, number | null>();
  for (const { digest } of shown)
    if (!times.has(digest.slot)) times.set(digest.slot, digest.time ?? (await view.timeNear(digest.slot)));
  return shown.map(({ digest, transfer }) =>
    transferText(digest, transfer, times.get(digest.slot) ?? null, facts.get(transfer.mint) ?? null),
  );
}
