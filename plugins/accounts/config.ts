import { type Static, Type } from '../../src/plugin/plugin.ts';

const count = (value: number, description: string, minimum = 1) =>
  Type.Integer({ minimum, default: value, description });

export const accountsConfig = Type.Object(
  {
    passOn: Type.Boolean({
      default: false,
      description:
        'the upstreams have getProgramAccountsV2 and getTokenAccountsByOwnerV2 themselves: pass the calls on',
    }),
    credits: Type.Number({ minimum: 0, default: 1, description: 'price of one page' }),
    keepMs: count(120_000, 'how long after its last page a list of keys is kept; later pages list again'),
    maxKeys: count(5_000_000, 'accounts of one list; more are refused'),
    projectListBytes: count(268_435_456, 'lists of keys of one project, 32 bytes a key'),
    totalListBytes: count(1_073_741_824, 'lists of keys of all projects'),
    maxListAnswerBytes: count(2_147_483_648, 'largest answer of an upstream that is read for its keys'),
    listTimeoutMs: count(120_000, 'longest wait for the list of an upstream'),
    pageTimeoutMs: count(25_000, 'longest wait for the accounts of a page'),
    keysPerCall: count(100, 'keys of one getMultipleAccounts; what nodes take'),
    concurrency: count(8, 'calls of one page at once'),
  },
  { additionalProperties: false, default: {} },
);

export type AccountsConfig = Static<typeof accountsConfig>;
