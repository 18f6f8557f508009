import { Type } from '@sinclair/typebox';
import type { EnhancedConfig } from './config.ts';
import type { Elements } from './elements.ts';
import type { Transactions } from './fetch.ts';

export interface RouteParts {
  readonly transactions: Transactions;
  readonly elements: Elements;
  readonly config: EnhancedConfig;
}

const refusal = Type.Object({ error: Type.String(), code: Type.Integer() });

/** Answers besides 200. */
export const REFUSALS = { 400: refusal, 401: refusal, 403: refusal, 429: refusal, 503: refusal, 504: refusal } as const;
export const NOT_FOUND = { 404: refusal } as const;

/** One enhanced transaction. */
export const enhancedSchema = Type.Object(
  {
    description: Type.String(),
    type: Type.String(),
    source: Type.String(),
    fee: Type.Integer(),
    feePayer: Type.String(),
    signature: Type.String(),
    slot: Type.Integer(),
    timestamp: Type.Integer(),
    tokenTransfers: Type.Array(Type.Object({})),
    nativeTransfers: Type.Array(Type.Object({})),
    accountData: Type.Array(Type.Object({})),
    transactionError: Type.Union([Type.Object({}), Type.Null()]),
    instructions: Type.Array(Type.Object({})),
    events: Type.Object({}),
  },
  { description: 'an enhanced transaction' },
);

export const commitmentQuery = Type.Optional(
  Type.Union([Type.Literal('confirmed'), Type.Literal('finalized')], { description: 'default confirmed' }),
);

/** For everything that is not waiting for the upstream. */
export const MARGIN_MS = 5_000;
