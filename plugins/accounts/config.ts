import { type Static, Type } from '@sinclair/typebox';
import { reloadable } from '../../src/lib/reloadable.ts';

const positive = (value: number, description: string) => Type.Integer({ minimum: 1, default: value, description });

export const accountsConfig = Type.Object(
  {
    passOn: Type.Boolean({
      default: false,
      description:
        'forward the calls: the upstreams have getProgramAccountsV2 and getTokenAccountsByOwnerV2 themselves',
    }),
    credits: reloadable(
      Type.Number({
        minimum: 0,
        default: 1,
        description: 'price of a page of a list that is kept, and of each page of getTokenAccountsByOwnerV2',
      }),
    ),
    listCredits: reloadable(
      Type.Number({
        minimum: 0,
        default: 10,
        description:
          'price of a page of getProgramAccountsV2 for which an upstream lists all keys of the program, as for getProgramAccounts: the first page, and a later one whose list is gone',
      }),
    ),
    keepMs: reloadable(
      positive(120_000, 'how long a list of keys is kept after its last page; later pages list again'),
    ),
    maxKeys: reloadable(positive(5_000_000, 'accounts of one list; longer lists are refused')),
    projectListBytes: reloadable(positive(268_435_456, 'size of the key lists of one project, 32 bytes per key')),
    totalListBytes: reloadable(positive(1_073_741_824, 'size of the key lists of all projects')),
    maxListAnswerBytes: reloadable(positive(2_147_483_648, 'largest response of an upstream when listing keys')),
    listTimeoutMs: reloadable(positive(120_000, 'longest wait for the list of an upstream')),
    pageTimeoutMs: reloadable(positive(25_000, 'longest wait for the accounts of a page')),
    keysPerCall: reloadable(positive(100, 'keys per getMultipleAccounts; nodes accept 100')),
    concurrency: reloadable(positive(8, 'concurrent calls for one page')),
  },
  { additionalProperties: false, default: {} },
);

export type AccountsConfig = Static<typeof accountsConfig>;
