import { type Static, Type } from '@sinclair/typebox';

const closed = { additionalProperties: false } as const;
const count = Type.Integer({ minimum: 0 });
const limit = Type.Union([Type.Null(), count]);
const rates = Type.Record(
  Type.String({ pattern: '^[A-Za-z][A-Za-z0-9]*$' }),
  Type.Union([Type.Null(), Type.Number({ minimum: 0 })]),
);
const features = Type.Object({ paidWallet: Type.Boolean() }, closed);
const webhooks = Type.Object({ max: limit, addressesPerWebhook: count }, closed);
const batch = Type.Object(
  {
    maxItems: Type.Optional(limit),
    historicalMax: Type.Optional(limit),
    getTransactionMax: Type.Optional(limit),
    notBatchable: Type.Optional(Type.Array(Type.String())),
  },
  closed,
);

const plan = Type.Object(
  {
    /** Credits of a cycle. */
    creditsLimit: count,
    /** Whether usage records show a billing cycle. */
    invoiced: Type.Boolean(),
    features,
    ratePerSecond: rates,
    webhooks,
    batch,
    /** US dollars a month; nothing is billed by it. */
    priceUsd: Type.Optional(Type.Number({ minimum: 0 })),
  },
  closed,
);

/** `config/plans.yaml`. */
export const plansSchema = Type.Object(
  {
    plans: Type.Record(Type.String({ pattern: '^[a-z][a-z0-9_-]{0,31}$' }), plan, { minProperties: 1 }),
    burstFactor: Type.Number({ minimum: 1 }),
    paidWalletEndpoints: Type.Array(Type.String()),
  },
  closed,
);

/** What a project lays over its plan, and the credits that it may use beyond all others. */
export const overridesSchema = Type.Object(
  {
    creditsLimit: Type.Optional(count),
    overageCredits: Type.Optional(count),
    features: Type.Optional(Type.Partial(features, closed)),
    ratePerSecond: Type.Optional(rates),
    webhooks: Type.Optional(Type.Partial(webhooks, closed)),
    batch: Type.Optional(batch),
  },
  closed,
);

export type Plan = Static<typeof plan>;
export type PlansFile = Static<typeof plansSchema>;
export type Overrides = Static<typeof overridesSchema>;
