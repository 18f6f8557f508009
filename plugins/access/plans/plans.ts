import { type Static, Type } from '@sinclair/typebox';
import { BUDGETS, type BudgetName, type Budgets } from '../../../src/ports/access.ts';

/** The plans of the file. */
export interface Plans {
  readonly names: readonly string[];
  has(name: string): boolean;
  /** What a project of this plan may use; null for a plan that does not exist. `overrides` is JSON as it is stored. */
  limitsOf(plan: string, overrides: string | null): Limits | null;
}

/** Limits are made once per plan and overrides; so many are remembered. */
const MAX_REMEMBERED = 10_000;

export function createPlans(file: PlansFile): Plans {
  const paidWallet = new Set(file.paidWalletEndpoints);
  const made = new Map<string, Limits>();
  return {
    names: Object.keys(file.plans),
    has: (name) => Object.hasOwn(file.plans, name),
    limitsOf(name, overrides) {
      const key = overrides === null ? name : `${name} ${overrides}`;
      const known = made.get(key);
      if (known !== undefined) return known;
      const plan = Object.hasOwn(file.plans, name) ? file.plans[name] : undefined;
      if (plan === undefined) return null;
      const own = overrides === null ? {} : (JSON.parse(overrides) as Overrides);
      const limits = layOver(name, plan, own, file, paidWallet);
      if (made.size >= MAX_REMEMBERED) made.clear();
      made.set(key, limits);
      return limits;
    },
  };
}

function layOver(
  name: string,
  plan: Plan,
  own: Overrides,
  { burstFactor, budgets }: PlansFile,
  paidWallet: ReadonlySet<string>,
): Limits {
  const rates = new Map<string, number>();
  for (const [group, rate] of Object.entries({ ...plan.ratePerSecond, ...own.ratePerSecond }))
    if (rate !== null) rates.set(group, rate);
  const { paidWallet: hasPaidWallet } = { ...plan.features, ...own.features };
  const batch = { ...plan.batch, ...own.batch };
  return {
    plan: name,
    creditsLimit: own.creditsLimit ?? plan.creditsLimit,
    overageCredits: own.overageCredits ?? 0,
    invoiced: plan.invoiced,
    refusedWallet: hasPaidWallet ? null : paidWallet,
    ratePerSecond: rates,
    burstFactor,
    webhooks: { ...plan.webhooks, ...own.webhooks },
    batch: {
      maxItems: batch.maxItems ?? null,
      historicalMax: batch.historicalMax ?? null,
      getTransactionMax: batch.getTransactionMax ?? null,
      notBatchable: new Set(batch.notBatchable ?? []),
    },
    budgets: budgetsOf({ ...budgets, ...plan.budgets, ...own.budgets }),
  };
}

function budgetsOf(given: Partial<Budgets>): Budgets {
  const names = Object.keys(BUDGETS) as BudgetName[];
  return Object.fromEntries(names.map((name) => [name, given[name] ?? null])) as Budgets;
}

/** What a project may use: its plan with its own values laid over. null = no limit. */
export interface Limits {
  readonly plan: string;
  /** Credits of a cycle. */
  readonly creditsLimit: number;
  /** Credits of a cycle beyond those and the prepaid ones. */
  readonly overageCredits: number;
  readonly invoiced: boolean;
  /** Last segments of wallet routes that the plan lacks; null when it has all. */
  readonly refusedWallet: ReadonlySet<string> | null;
  /** By group; a missing group has no limit, 0 means that the plan lacks its methods. */
  readonly ratePerSecond: ReadonlyMap<string, number>;
  readonly burstFactor: number;
  readonly webhooks: { readonly max: number | null; readonly addressesPerWebhook: number };
  readonly batch: BatchLimits;
  readonly budgets: Budgets;
}

export interface BatchLimits {
  readonly maxItems: number | null;
  /** Items of methods that read the archive, `getTransaction` apart. */
  readonly historicalMax: number | null;
  readonly getTransactionMax: number | null;
  readonly notBatchable: ReadonlySet<string>;
}

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

const optionalLimit = Type.Optional(limit);
const budgets = Type.Object(
  Object.fromEntries(Object.keys(BUDGETS).map((name) => [name, optionalLimit])) as Record<
    BudgetName,
    typeof optionalLimit
  >,
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
    budgets: Type.Optional(budgets),
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
    /** Of each plan that does not say otherwise. */
    budgets: Type.Optional(budgets),
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
    budgets: Type.Optional(budgets),
  },
  closed,
);

type Plan = Static<typeof plan>;
export type PlansFile = Static<typeof plansSchema>;
export type Overrides = Static<typeof overridesSchema>;
