import { Type } from '@sinclair/typebox';
import { defineRoute, type Route } from '../../../src/kernel/plugin.ts';
import { json, RequestError } from '../../../src/kernel/request.ts';
import type { MintFacts } from '../../../src/ports/token-facts.ts';
import { uiAmount } from '../../../src/solana/accounts/token/ui-amount.ts';
import { WRAPPED_SOL_MINT } from '../../../src/solana/address/known-programs.ts';
import { walkTransactions } from '../history/walk.ts';
import { walletKey, walletParams } from '../input/address.ts';
import { pagination, WALLET_REFUSALS, WALLET_ROUTE } from '../input/common.ts';
import { isSignature, positionOfCursor } from '../input/cursor.ts';
import type { TokenWords } from '../input/token-words.ts';
import { CHANGED, NAMED, TOUCHED } from '../store/flags.ts';
import type { OpenWallet } from '../tracking/open-wallet.ts';
import { incompleteHistory } from '../tracking/refusals.ts';
import type { Loaded, WalletView } from '../tracking/view.ts';
import { withheldFee } from './fee.ts';
import { type TransferRow, transferRows } from './rows.ts';

export interface TransfersContext {
  readonly open: OpenWallet;
  readonly words: TokenWords;
  readonly scanLimit: number;
}

interface Found {
  readonly loaded: Loaded;
  readonly row: TransferRow;
  /** Of the rows of its transaction. */
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
export function transfersRoute({ open, words, scanLimit }: TransfersContext): Route {
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
      const end = await walkTransactions(view, range, (loaded) => {
        const first = loaded.n === start ? (skipped ?? 0) : 0;
        const rows = transferRows(loaded.tx, loaded.block, view.address);
        rows.forEach((row, at) => {
          if (at >= first) found.push({ loaded, row, at });
        });
        return found.length > limit;
      });
      const shown = found.slice(0, limit);
      if (shown.length === 0 && end.reason === 'pruned' && end.last === null)
        throw incompleteHistory(end.prunedBelow ?? 0);
      const hasMore = found.length > limit || end.reason !== 'complete';
      return json({
        data: await elements(view, shown, words, signal),
        pagination: { hasMore, nextCursor: hasMore ? nextCursor(found, limit, end.last) : null },
      });
    },
  });
}

function readCursor(text: string): { readonly signature: string; readonly row: number | null } {
  const [, signature = '', row] = CURSOR.exec(text) ?? [];
  if (!isSignature(signature)) throw new RequestError(400, 'Invalid cursor');
  return { signature, row: row === undefined ? null : Number(row) };
}

/** Behind the last row that is shown: within its transaction, or behind it; or where the search gave up. */
function nextCursor(found: readonly Found[], limit: number, last: Loaded | null): string | null {
  const next = found[limit];
  const shown = found[limit - 1];
  if (next === undefined || shown === undefined) return last?.signature ?? null;
  const { signature } = shown.loaded;
  return next.loaded === shown.loaded ? `${signature}-${next.at}` : signature;
}

async function elements(view: WalletView, shown: readonly Found[], words: TokenWords, signal: AbortSignal) {
  const mints = [...new Set(shown.map(({ row }) => row.mint))].filter((mint) => mint !== WRAPPED_SOL_MINT);
  const needs = shown.some(({ row }) => row.isFeeUnknown || row.decimals === null);
  const facts = await (needs ? words.needed(mints, signal) : words.known(mints, signal));
  const times = new Map<number, number | null>();
  for (const { loaded } of shown)
    if (!times.has(loaded.slot)) times.set(loaded.slot, loaded.time ?? (await view.timeNear(loaded.slot)));
  return shown.map(({ loaded, row }) =>
    element(loaded, row, times.get(loaded.slot) ?? null, facts.get(row.mint) ?? null),
  );
}

function element(loaded: Loaded, row: TransferRow, time: number | null, facts: MintFacts | null) {
  const { direction, counterparty, mint, isFeeUnknown } = row;
  const decimals = row.decimals ?? facts?.decimals ?? 0;
  const raw = isFeeUnknown ? row.amount - withheldFee(row.amount, facts?.transferFee ?? null, loaded.slot) : row.amount;
  return {
    ...{ signature: loaded.signature, timestamp: time, direction, counterparty, mint },
    symbol: mint === WRAPPED_SOL_MINT ? 'SOL' : (facts?.symbol ?? null),
    amount: Number(uiAmount(raw, decimals, facts?.scale ?? null, time ?? 0)),
    ...{ amountRaw: raw.toString(), decimals },
  };
}
