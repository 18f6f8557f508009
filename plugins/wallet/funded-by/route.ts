import { Type } from '@sinclair/typebox';
import { defineRoute, type Route, type Store } from '../../../src/kernel/plugin.ts';
import { json, RequestError } from '../../../src/kernel/request.ts';
import { plainAmount } from '../../../src/solana/accounts/token/ui-amount.ts';
import { WRAPPED_SOL_MINT } from '../../../src/solana/address/known-programs.ts';
import { walletKey, walletParams } from '../input/address.ts';
import { refusedAs503 } from '../input/chain-call.ts';
import { NOT_FOUND, WALLET_REFUSALS, WALLET_ROUTE } from '../input/common.ts';
import type { Label } from '../part.ts';
import type { Db } from '../store/tables.ts';
import { beingIndexed, incompleteHistory, noChain } from '../tracking/refusals.ts';
import type { FirstFunding, FundingSearches } from './search.ts';

export interface FundedByContext {
  readonly store: Store;
  /** Null without a chain. */
  readonly searches: FundingSearches | null;
  labelOf(address: string): Label | null;
  readonly explorerTxUrl: string;
  readonly maxPages: number;
}

const SOL_DECIMALS = 9;
const orNull = Type.Union([Type.String(), Type.Null()]);

const reply = Type.Object({
  ...{ funder: Type.String(), funderName: orNull, funderType: orNull },
  ...{ mint: Type.String(), symbol: Type.Literal('SOL') },
  ...{ amount: Type.Number(), amountRaw: Type.String(), decimals: Type.Literal(SOL_DECIMALS) },
  ...{ signature: Type.String(), timestamp: Type.Integer(), date: Type.String(), slot: Type.Integer() },
  explorerUrl: Type.String(),
});

/** GET funded-by: where the first SOL of a wallet came from. */
export function fundedByRoute(context: FundedByContext): Route {
  return defineRoute({
    ...WALLET_ROUTE,
    method: 'GET',
    path: '/v1/wallet/:wallet/funded-by',
    summary: 'The first incoming SOL transfer of a wallet',
    params: walletParams,
    replies: { 200: reply, ...WALLET_REFUSALS, ...NOT_FOUND },
    async handler({ params, signal }) {
      const key = walletKey(params.wallet);
      const funding =
        (await readFunding(context, params.wallet)) ?? (await findFunding(context, key, params.wallet, signal));
      return json(view(context, funding));
    },
  });
}

async function readFunding({ store }: FundedByContext, address: string): Promise<FirstFunding | null> {
  const row = await (store.read as Db)
    .selectFrom('wallet_fundings')
    .select('body')
    .where('address', '=', address)
    .executeTakeFirst();
  return row === undefined ? null : (JSON.parse(row.body) as FirstFunding);
}

async function findFunding(
  { store, searches, maxPages }: FundedByContext,
  key: Uint8Array,
  address: string,
  signal: AbortSignal,
): Promise<FirstFunding> {
  if (searches === null) throw noChain();
  const end = await refusedAs503('the history of the wallet', searches.run(key, address, signal));
  if (end.kind === 'running') throw beingIndexed(end.count);
  if (end.kind === 'pruned') throw incompleteHistory(end.firstSlot);
  if (end.kind === 'too-long')
    throw new RequestError(503, 'Incomplete history', {
      details: `The wallet has more than ${maxPages * 1_000} transactions (wallet.fundedBy.maxPages)`,
      retryAfterS: null,
    });
  if (end.kind === 'none') throw new RequestError(404, 'No funding transaction found');
  const { funding, isFinal } = end;
  // What is final on a complete history never changes.
  if (isFinal)
    await store.write((tx) =>
      tx.insertMany('wallet_fundings', ['address', 'body'], [[address, JSON.stringify(funding)]], 'ignore'),
    );
  return funding;
}

function view({ labelOf, explorerTxUrl }: FundedByContext, { funder, amount, signature, slot, time }: FirstFunding) {
  const label = labelOf(funder);
  return {
    ...{ funder, funderName: label?.name ?? null, funderType: label?.type ?? null },
    ...{ mint: WRAPPED_SOL_MINT, symbol: 'SOL' },
    ...{ amount: Number(plainAmount(BigInt(amount), SOL_DECIMALS)), amountRaw: amount, decimals: SOL_DECIMALS },
    ...{ signature, timestamp: time, date: new Date(time * 1_000).toISOString(), slot },
    explorerUrl: explorerTxUrl.replace('{signature}', signature),
  };
}
