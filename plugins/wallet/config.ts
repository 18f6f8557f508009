import { type Static, Type } from '@sinclair/typebox';
import { balancesKeys } from './balances/config.ts';
import { identityKeys } from './identity/config.ts';

const closed = { additionalProperties: false } as const;
const count = (value: number, description: string, minimum = 1) =>
  Type.Integer({ minimum, default: value, description });

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
    idleDays: count(30, 'after how many days without a request a wallet is no longer followed; 0 = never', 0),
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
