import { type Static, Type } from '@sinclair/typebox';

const closed = { additionalProperties: false } as const;
const count = (value: number, maximum: number, description: string) =>
  Type.Integer({ minimum: 1, maximum, default: value, description });

export const enhancedConfig = Type.Object(
  {
    credits: Type.Number({ minimum: 0, default: 100, description: 'price of one call' }),
    concurrency: count(8, 100, 'transactions that one call reads from the upstream at once'),
    upstreamTimeoutMs: count(10_000, 120_000, 'longest wait for one answer of the upstream'),
    namesTimeoutMs: count(250, 10_000, 'how long an answer waits for names of tokens'),
    scanLimit: count(1_000, 100_000, 'transactions of an address that one call with a filter looks through'),
    sortLimit: count(10_000, 1_000_000, 'signatures of an address that are listed to answer oldest first'),
    preferSwapOverMint: Type.Boolean({
      default: false,
      description:
        'a swap over one market that mints shares of its fee is a SWAP, not a TOKEN_MINT as the hosted service says',
    }),
    setAuthorityEvents: Type.Boolean({
      default: false,
      description: 'report changes of token authorities in events.setAuthority',
    }),
  },
  { ...closed, default: {} },
);

export type EnhancedConfig = Static<typeof enhancedConfig>;
