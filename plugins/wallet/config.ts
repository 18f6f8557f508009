import { type Static, Type } from '@sinclair/typebox';
import { reloadable } from '../../src/lib/reloadable.ts';

const closed = { additionalProperties: false } as const;
const count = (value: number, description: string, minimum = 1) =>
  Type.Integer({ minimum, default: value, description });

/** Keys of the `wallet` section that belong to balances. */
const balancesKeys = {
  balances: Type.Object(
    {
      cacheMs: reloadable(count(1_000, 'how long the balances of a wallet are cached for its first page', 0)),
      pagesMs: reloadable(
        count(30_000, 'how long further pages show balances of the same moment as the first page', 0),
      ),
      maxMints: reloadable(count(10_000, 'different tokens of one wallet; with more, the response is 503')),
      maxCachedRows: count(200_000, 'tokens of all cached wallets'),
      core: Type.Boolean({
        default: true,
        description: 'return Metaplex Core assets as NFTs; the upstream must allow getProgramAccounts',
      }),
      dasUrl: Type.Union([Type.String({ format: 'http-url', secret: true }), Type.Null()], {
        default: null,
        description:
          'asset API with searchAssets, for compressed NFTs of trees that are not followed; null = they are not returned',
        secret: true,
      }),
    },
    { ...closed, default: {}, description: 'current balances of wallets' },
  ),
};

/** Keys of the `wallet` section that belong to identities. */
const identityKeys = {
  identity: Type.Object(
    {
      files: reloadable(
        Type.Array(Type.String({ format: 'file' }), {
          default: [],
          description: 'label files, JSON Lines; if an address has two labels, the later file wins',
        }),
      ),
      reloadMs: reloadable(count(5_000, 'how often the files are checked for changes', 100)),
      maxLabels: reloadable(count(500_000, 'labels of all files; further ones are ignored')),
      domains: reloadable(
        Type.Boolean({
          default: true,
          description:
            'include the names that an address owns in its identity; the upstream must allow getProgramAccounts',
        }),
      ),
      domainsWaitMs: reloadable(count(1_000, 'how long a response waits for these names', 0)),
      maxDomains: reloadable(count(1_000, 'names of one address; with more, none are returned')),
      unknownAs: reloadable(
        Type.Union([Type.Literal('404'), Type.Literal('200')], {
          default: '404',
          description: 'status for an address without a label; 200 returns {address, type: unknown}',
        }),
      ),
      batchUnknown: reloadable(
        Type.Union([Type.Literal('short'), Type.Literal('full')], {
          default: 'short',
          description:
            'unknown entries of a batch: short = as in the hosted service; full = with all members, for typed clients',
        }),
      ),
    },
    { ...closed, default: {}, description: 'identities of addresses' },
  ),
  sns: Type.Object(
    {
      suffixes: reloadable(
        Type.Array(Type.String({ pattern: '^[a-z0-9-]{1,32}$' }), {
          default: ['sns', 'sol'],
          description: 'suffixes of names that are looked up in the name registry',
        }),
      ),
      solCutOffSlot: Type.Union([Type.Integer({ minimum: 0 }), Type.Null()], {
        default: 452_825_395,
        description: 'final slot from which .sol names no longer belong to this registry; null = they stay',
      }),
      srs: reloadable(
        Type.Boolean({
          default: false,
          description:
            'from solCutOffSlot on, look up .sol names in the registry that they moved to; false = they are not resolved',
        }),
      ),
      allowPda: reloadable(
        Type.Boolean({ default: false, description: 'resolve names that a program owns to its address' }),
      ),
      cacheSeconds: reloadable(
        Type.Integer({
          minimum: 0,
          maximum: 7_200,
          default: 600,
          description: 'how long a resolved name, and the names of an address, are cached',
        }),
      ),
      negativeCacheSeconds: reloadable(count(60, 'how long an unresolved name is cached', 0)),
    },
    { ...closed, default: {}, description: 'names of addresses' },
  ),
};

export const walletConfig = Type.Object(
  {
    follow: Type.Array(Type.String({ format: 'address' }), {
      default: [],
      description: 'wallets that are indexed from the start, without a request',
    }),
    full: Type.Boolean({
      default: false,
      description: 'index every wallet of every block from follow.startSlot; needs much space and a fast disk',
    }),
    readThroughMs: reloadable(count(8_000, 'how long a request waits for a wallet that is being indexed')),
    scanLimit: reloadable(count(1_000, 'transactions that one request searches for a type')),
    idleDays: reloadable(
      count(
        30,
        'days without a request after which a wallet is no longer followed and its data is deleted; 0 = never',
        0,
      ),
    ),
    limits: Type.Object(
      {
        wallets: reloadable(count(100_000, 'wallets that are indexed for all projects')),
        transactions: reloadable(
          count(1_000_000, 'transactions of one wallet; a larger wallet is refused and no longer followed'),
        ),
        transactionsPerMinute: reloadable(
          count(1_200, 'measured over 1,000 transactions; a busier address is refused (400)'),
        ),
      },
      {
        ...closed,
        default: {},
        description: 'limits of indexed wallets; they do not apply to wallet.follow and `wallet follow`',
      },
    ),
    commitment: Type.Union([Type.Literal('confirmed'), Type.Literal('finalized')], {
      default: 'confirmed',
      description: 'commitment of the newest rows of history and transfers',
    }),
    historyFloorSlot: count(1, 'an upstream whose first block is not later than this slot has the full history', 0),
    explorerTxUrl: reloadable(
      Type.String({
        default: 'https://orbmarkets.io/tx/{signature}?tab=summary',
        description: 'link to a transaction in responses of funded-by, with {signature}',
      }),
    ),
    fundedBy: Type.Object(
      {
        maxPages: reloadable(
          count(100, 'pages of 1,000 signatures that are searched for the first funding of a wallet'),
        ),
      },
      { ...closed, default: {}, description: 'the first funding of a wallet' },
    ),
    backfill: Type.Object(
      {
        wallets: count(4, 'wallets whose past is read concurrently'),
        concurrency: count(8, 'concurrent upstream calls for all of them'),
      },
      { ...closed, default: {}, description: 'backfill of wallets' },
    ),
    transactions: Type.Object(
      { cacheBytes: count(33_554_432, 'transactions cached in memory') },
      { ...closed, default: {}, description: 'transactions of wallets' },
    ),
    ...identityKeys,
    ...balancesKeys,
  },
  { ...closed, default: {} },
);

export type WalletConfig = Static<typeof walletConfig>;

/** Coded errors of this plugin. */
export const WALLET_ERRORS = {
  WALLET_ASSETS_WITHHELD: 'compressed NFTs are withheld while a tree of them is read',
  WALLET_ASSETS_BAD_ANSWER: 'the asset API of wallet.balances.dasUrl returned an invalid response',
  WALLET_BEHIND: 'the upstream has not reached a slot that was already returned',
  WALLET_BUDGET: 'the plan of the project has no room for another wallet, or for its transactions',
  WALLET_INDEX_FULL: 'the limit wallet.limits.wallets is reached',
  WALLET_LABELS_UNREADABLE: 'a file of wallet.identity.files cannot be read',
  WALLET_NOT_A_WALLET: 'the address is a program, a sysvar or a native id',
  WALLET_NO_ADDRESS: 'an address is invalid',
  WALLET_NO_OUTBOX: 'the kernel has no outbox',
  WALLET_NO_TRANSACTION: 'an upstream lists a transaction that no upstream has',
  WALLET_NUMBER_TAKEN: 'two wallets have the same number',
  WALLET_STOPPED: 'the daemon is stopping',
  WALLET_TOO_BUSY: 'the address has more transactions a minute than wallet.limits.transactionsPerMinute',
  WALLET_TOO_LARGE: 'the address has more transactions than wallet.limits.transactions',
  WALLET_TOO_MANY_NEW: 'the project starts more wallets a minute than its plan allows',
  WALLET_UNKNOWN: 'the wallet is not indexed',
} as const;
