import { reloadable, type Static, Type } from '../../src/plugin/plugin.ts';

const count = (value: number, description: string, minimum = 1) =>
  Type.Integer({ minimum, default: value, description });

export const accountsConfig = Type.Object(
  {
    passOn: Type.Boolean({
      default: false,
      description:
        'forward the calls: the upstreams have getProgramAccountsV2 and getTokenAccountsByOwnerV2 themselves',
    }),
    credits: reloadable(Type.Number({ minimum: 0, default: 1, description: 'price of one page' })),
    keepMs: reloadable(count(120_000, 'how long a list of keys is kept after its last page; later pages list again')),
    maxKeys: reloadable(count(5_000_000, 'accounts of one list; longer lists are refused')),
    projectListBytes: reloadable(count(268_435_456, 'size of the key lists of one project, 32 bytes per key')),
    totalListBytes: reloadable(count(1_073_741_824, 'size of the key lists of all projects')),
    maxListAnswerBytes: reloadable(count(2_147_483_648, 'largest response of an upstream when listing keys')),
    listTimeoutMs: reloadable(count(120_000, 'longest wait for the list of an upstream')),
    pageTimeoutMs: reloadable(count(25_000, 'longest wait for the accounts of a page')),
    keysPerCall: reloadable(count(100, 'keys per getMultipleAccounts; nodes accept 100')),
    concurrency: reloadable(count(8, 'concurrent calls for one page')),
  },
  { additionalProperties: false, default: {} },
);

export type AccountsConfig = Static<typeof accountsConfig>;
