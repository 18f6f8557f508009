import { Type } from '@sinclair/typebox';

const textOrNull = Type.Union([Type.String(), Type.Null()]);
const numberOrNull = Type.Union([Type.Number(), Type.Null()]);

export const balancesQuery = Type.Object({
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

export const balancesReply = Type.Object({
  balances: Type.Array(balanceRow),
  nfts: Type.Optional(Type.Array(nftRow)),
  totalUsdValue: Type.Number({ description: 'of this page' }),
  pagination: Type.Object({ page: Type.Integer(), limit: Type.Integer(), hasMore: Type.Boolean() }),
});
