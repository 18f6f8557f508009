import { type Static, Type } from '@sinclair/typebox';

const closed = { additionalProperties: false } as const;
const count = (value: number, description: string, minimum = 1) =>
  Type.Integer({ minimum, default: value, description });

/** Keys of the `wallet` section that belong to balances. */
const balancesKeys = {
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

/** Keys of the `wallet` section that belong to identities. */
const identityKeys = {
  identity: Type.Object(
    {
      files: Type.Array(Type.String({ minLength: 1 }), {
        default: [],
        description: 'label files, JSON Lines; of two labels of one address the later file counts',
      }),
      reloadMs: count(5_000, 'how often the files are looked at for changes', 100),
      maxLabels: count(500_000, 'labels of all files together; further ones are left out'),
      domains: Type.Boolean({
        default: true,
        description: 'whether an identity tells the names its address owns; the upstream must allow getProgramAccounts',
      }),
      domainsWaitMs: count(1_000, 'how long an answer waits for these names before it goes without', 0),
      maxDomains: count(1_000, 'names of one address; with more, none are told'),
      unknownAs: Type.Union([Type.Literal('404'), Type.Literal('200')], {
        default: '404',
        description: 'status of an address without a label; 200 answers {address, type: unknown}',
      }),
      batchUnknown: Type.Union([Type.Literal('short'), Type.Literal('full')], {
        default: 'short',
        description:
          'entries of a batch that nobody knows: as the hosted service has them, or with all members for typed clients',
      }),
    },
    { ...closed, default: {}, description: 'who is behind an address' },
  ),
  sns: Type.Object(
    {
      suffixes: Type.Array(Type.String({ pattern: '^[a-z0-9-]{1,32}$' }), {
        default: ['sns', 'sol'],
        description: 'endings of names that are looked up in the name registry',
      }),
      solCutOffSlot: Type.Union([Type.Integer({ minimum: 0 }), Type.Null()], {
        default: 452_825_395,
        description: 'final slot from which .sol names are no longer those of this registry; null = they stay',
      }),
      srs: Type.Boolean({
        default: false,
        description: 'from then on, look .sol names up in the registry they moved to; false = they are not resolved',
      }),
      allowPda: Type.Boolean({ default: false, description: 'names that a program owns stand for its address' }),
      cacheSeconds: Type.Integer({
        minimum: 0,
        maximum: 7_200,
        default: 600,
        description: 'how long a resolved name, and the names of an address, are remembered',
      }),
      negativeCacheSeconds: count(60, 'how long it is remembered that a name is not resolved', 0),
    },
    { ...closed, default: {}, description: 'names of addresses' },
  ),
};

export const walletConfig = Type.Object(
  {
    follow: Type.Array(Type.String({ pattern: '^[1-9A-HJ-NP-Za-km-z]{32,44}$' }), {
      default: [],
      description: 'wallets that are indexed from the start, without being asked for',
    }),
    full: Type.Boolean({
      default: false,
      description: 'index every wallet of every block from follow.startSlot on; needs much room and a fast disk',
    }),
    readThroughMs: count(8_000, 'how long a request waits for a wallet that is being indexed'),
    scanLimit: count(1_000, 'transactions that one request looks through for a type'),
    idleDays: count(
      30,
      'after how many days without a request a wallet is no longer followed and what is stored of it is deleted; 0 = never',
      0,
    ),
    limits: Type.Object(
      {
        wallets: count(100_000, 'wallets that are indexed for all projects together'),
        transactions: count(1_000_000, 'transactions of one wallet; one with more is refused and no longer followed'),
        transactionsPerMinute: count(
          1_200,
          'measured over 1,000 transactions; an address with more is too busy to be indexed (400), like a program',
        ),
      },
      {
        ...closed,
        default: {},
        description: 'what wallets may take up; wallet.follow and `wallet follow` go beyond it',
      },
    ),
    commitment: Type.Union([Type.Literal('confirmed'), Type.Literal('finalized')], {
      default: 'confirmed',
      description: 'how settled the newest rows of history and transfers are',
    }),
    historyFloorSlot: count(1, 'an upstream whose first block is no later than this has everything', 0),
    explorerTxUrl: Type.String({
      default: 'https://orbmarkets.io/tx/{signature}?tab=summary',
      description: 'page of a transaction in the answers of funded-by; {signature} stands for it',
    }),
    fundedBy: Type.Object(
      { maxPages: count(100, 'pages of 1,000 signatures that are read for the first funding of a wallet') },
      { ...closed, default: {}, description: 'the first funding of a wallet' },
    ),
    backfill: Type.Object(
      {
        wallets: count(4, 'wallets whose past is read at once'),
        concurrency: count(8, 'calls to the upstream of all of them at once'),
      },
      { ...closed, default: {}, description: 'reading the past of wallets' },
    ),
    transactions: Type.Object(
      { cacheBytes: count(33_554_432, 'transactions that are kept in memory') },
      { ...closed, default: {}, description: 'transactions of wallets' },
    ),
    ...identityKeys,
    ...balancesKeys,
  },
  { ...closed, default: {} },
);

export type WalletConfig = Static<typeof walletConfig>;
