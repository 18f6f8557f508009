import { type Static, Type } from '@sinclair/typebox';
import { reloadable } from '../../src/lib/reloadable.ts';

export const historyConfig = Type.Object(
  {
    passOn: Type.Boolean({
      default: false,
      description:
        'forward the calls: the upstreams have getTransactionsForAddress and getTransfersByAddress themselves',
    }),
    standard: Type.Boolean({
      default: true,
      description:
        'answer getBlock, getTransaction and other standard methods from the ledger (ledger.retain), as far as it goes; the rest goes upstream',
    }),
    scanLimit: reloadable(
      Type.Integer({
        minimum: 1,
        default: 2_000,
        description:
          'transactions that one call searches with a filter; then the page ends and its token continues the search',
      }),
    ),
    timeoutMs: reloadable(Type.Integer({ minimum: 1, default: 25_000, description: 'deadline of a call' })),
    credits: Type.Object(
      {
        transactionsForAddress: reloadable(
          Type.Number({
            minimum: 0,
            default: 10,
            description: 'getTransactionsForAddress: a page of signatures, or each 100 returned full transactions',
          }),
        ),
        transfersByAddress: reloadable(
          Type.Number({ minimum: 0, default: 10, description: 'getTransfersByAddress: a page' }),
        ),
      },
      { additionalProperties: false, default: {}, description: 'price of a call' },
    ),
  },
  { additionalProperties: false, default: {} },
);

export type HistoryConfig = Static<typeof historyConfig>;
