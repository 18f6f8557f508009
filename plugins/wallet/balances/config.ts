import { Type } from '@sinclair/typebox';

const closed = { additionalProperties: false } as const;
const count = (value: number, description: string, minimum = 1) =>
  Type.Integer({ minimum, default: value, description });

/** Keys of the `wallet` section that belong to balances. */
export const balancesKeys = {
  balances: Type.Object(
    {
      cacheMs: count(1_000, 'how long what a wallet holds is remembered for its first page', 0),
      pagesMs: count(30_000, 'how long further pages are those of the same moment as the first', 0),
      maxMints: count(10_000, 'different tokens of one wallet; with more, the answer is 503'),
      maxCachedRows: count(200_000, 'tokens of all remembered wallets together'),
      core: Type.Boolean({
        default: true,
        description: 'tell Metaplex Core assets as NFTs; the upstream must allow getProgramAccounts',
      }),
      dasUrl: Type.Union([Type.String({ format: 'http-url', secret: true }), Type.Null()], {
        default: null,
        description: 'asset API whose searchAssets tells compressed NFTs; null = they are not told',
        secret: true,
      }),
    },
    { ...closed, default: {}, description: 'what wallets hold now' },
  ),
};
