import { Type } from '@sinclair/typebox';

const closed = { additionalProperties: false } as const;
const count = (value: number, description: string, minimum = 1) =>
  Type.Integer({ minimum, default: value, description });

/** Keys of the `wallet` section that belong to identities. */
export const identityKeys = {
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
