import { type Static, Type } from '@sinclair/typebox';
import { reloadable } from '../../src/lib/reloadable.ts';

const count = (value: number, maximum: number, description: string) =>
  Type.Integer({ minimum: 1, maximum, default: value, description });

export const enhancedConfig = Type.Object(
  {
    credits: reloadable(Type.Number({ minimum: 0, default: 100, description: 'price of one call' })),
    concurrency: reloadable(count(8, 100, 'transactions that one call reads from the upstream concurrently')),
    upstreamTimeoutMs: reloadable(count(10_000, 120_000, 'longest wait for one response of the upstream')),
    namesTimeoutMs: reloadable(count(250, 10_000, 'how long a response waits for token names')),
    scanLimit: reloadable(count(1_000, 100_000, 'transactions of an address that one call with a filter searches')),
    sortLimit: reloadable(
      count(10_000, 1_000_000, 'signatures of an address that are listed for the order oldest first'),
    ),
  },
  { additionalProperties: false, default: {} },
);

export type EnhancedConfig = Static<typeof enhancedConfig>;
