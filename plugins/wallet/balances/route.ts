import { Type } from '@sinclair/typebox';
import { defineRoute, type Route } from '../../../src/plugin/plugin.ts';
import { WRAPPED_SOL_MINT } from '../../../src/solana/addresses.ts';
import { WALLET_REFUSALS, WALLET_ROUTE, walletKey, walletParams } from '../input.ts';
import type { LookUpFacts } from './facts.ts';
import type { NftReader } from './nfts.ts';
import { cutPage, solRow, tokenRow, totalValue } from './page.ts';
import type { HoldingTable, Tables } from './tables.ts';

interface BalancesContext {
  readonly tables: Tables;
  readonly lookUp: LookUpFacts;
  readonly nfts: NftReader;
  /** Another number whenever something else may be known of mints. */
  readonly factsRevision: () => number;
}

/** The answer that was made last of a table. */
interface Finished {
  readonly question: string;
  readonly revision: number;
  readonly bytes: Uint8Array;
}

/** GET balances: SOL, tokens by value, and NFTs where they are asked for. */
export function balancesRoute({ tables, lookUp, nfts, factsRevision }: BalancesContext): Route {
  const finished = new WeakMap<HoldingTable, Finished>();
  return defineRoute({
    ...WALLET_ROUTE,
    method: 'GET',
    path: '/v1/wallet/:wallet/balances',
    summary: 'What a wallet holds now, with values in US dollars',
    params: walletParams,
    query: balancesQuery,
    replies: { 200: balancesReply, ...WALLET_REFUSALS },
    async handler({ params: { wallet }, query }) {
      walletKey(wallet);
      const { page, limit, showZeroBalance: withZeros, showNfts } = query;
      const table = await tables.read(wallet, { page, withZeros });
      const question = `${page} ${limit} ${query.showNative}`;
      const known = finished.get(table);
      const revision = factsRevision();
      if (!showNfts && known?.question === question && known.revision === revision)
        return { status: 200, jsonBytes: known.bytes };
      const cut = cutPage(table, query);
      const mints = new Set([...(cut.withSol ? [WRAPPED_SOL_MINT] : []), ...cut.rows.map(({ mint }) => mint)]);
      const [facts, shownNfts] = await Promise.all([
        lookUp([...mints], { wantLogos: true }),
        showNfts && page === 1 ? nfts.read(wallet, table.nfts) : null,
      ]);
      const balances = [
        ...(cut.withSol ? [solRow(table, facts.get(WRAPPED_SOL_MINT) ?? null)] : []),
        ...cut.rows.map((row) => tokenRow(row, facts.get(row.mint) ?? null)),
      ];
      const answer = {
        balances,
        ...(shownNfts === null ? {} : { nfts: shownNfts }),
        totalUsdValue: totalValue(balances),
        pagination: { page, limit, hasMore: cut.hasMore },
      };
      const bytes = Buffer.from(JSON.stringify(answer));
      if (!showNfts) finished.set(table, { question, revision, bytes });
      return { status: 200, jsonBytes: bytes };
    },
  });
}

const textOrNull = Type.Union([Type.String(), Type.Null()]);
const numberOrNull = Type.Union([Type.Number(), Type.Null()]);

const balancesQuery = Type.Object({
  page: Type.Integer({ minimum: 1, maximum: 1_000_000, default: 1 }),
  limit: Type.Integer({ minimum: 1, maximum: 100, default: 100 }),
  showZeroBalance: Type.Boolean({ default: false }),
  showNative: Type.Boolean({ default: true, description: 'SOL as the first row of the first page' }),
  showNfts: Type.Boolean({ default: false, description: 'up to 100 NFTs beside the first page' }),
});

const balanceRow = Type.Object({
  mint: Type.String(),
  symbol: textOrNull,
  name: textOrNull,
  balance: Type.Number({ description: 'in whole tokens' }),
  decimals: Type.Integer(),
  pricePerToken: numberOrNull,
  usdValue: numberOrNull,
  logoUri: textOrNull,
  tokenProgram: Type.Union([Type.Literal('spl-token'), Type.Literal('token-2022')]),
});

const nftRow = Type.Object({
  mint: Type.String(),
  name: textOrNull,
  imageUri: textOrNull,
  collectionName: textOrNull,
  collectionAddress: textOrNull,
  compressed: Type.Boolean(),
});

const balancesReply = Type.Object({
  balances: Type.Array(balanceRow),
  nfts: Type.Optional(Type.Array(nftRow)),
  totalUsdValue: Type.Number({ description: 'of this page' }),
  pagination: Type.Object({ page: Type.Integer(), limit: Type.Integer(), hasMore: Type.Boolean() }),
});
