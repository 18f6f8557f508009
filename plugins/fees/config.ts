import { type Static, Type } from '@sinclair/typebox';
import { reloadable } from '../../src/lib/reloadable.ts';

export const feesConfig = Type.Object(
  {
    credits: reloadable(Type.Number({ minimum: 0, default: 1, description: 'price of one estimate' })),
    upstreamTimeoutMs: reloadable(
      Type.Integer({
        minimum: 1,
        maximum: 120_000,
        default: 5_000,
        description: 'longest wait for the address lookup tables of a transaction',
      }),
    ),
  },
  { additionalProperties: false, default: {} },
);

export type FeesConfig = Static<typeof feesConfig>;
