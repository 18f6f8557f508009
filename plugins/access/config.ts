import { type Static, Type } from '@sinclair/typebox';

export const accessConfig = Type.Object(
  {
    keyCacheSize: Type.Integer({
      minimum: 1,
      default: 10_000,
      description: 'keys that are remembered, so that a call with a known key needs no query',
    }),
    keyCacheMs: Type.Integer({
      minimum: 0,
      maximum: 60_000,
      default: 500,
      description: 'how long a key is remembered: a revoked key works at most this much longer',
    }),
  },
  { additionalProperties: false, default: {} },
);

export type AccessConfig = Static<typeof accessConfig>;
