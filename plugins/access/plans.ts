import { type Static, Type } from '@sinclair/typebox';
import { CodedError, EXIT } from '../../src/lib/coded-error.ts';
import { type AccessPlans, BUDGETS, type BudgetName, type Budgets } from '../../src/ports/access.ts';
import type { Queries, Store } from '../../src/ports/store.ts';
import { ACCESS_ERRORS, type AccessConfig } from './config.ts';
import { tables } from './tables.ts';

/** The plans of the plans file. */
export interface Plans {
  readonly names: readonly string[];
  has(name: string): boolean;
  /** The limits of a project with this plan; null if the plan does not exist. `overrides` is the stored JSON. */
  limitsOf(plan: string, overrides: string | null): Limits | null;
  /** Dollars and credits; null: the plan has no price, or no credits. */
  priceOf(plan: string): { readonly usd: number; readonly credits: number } | null;
}

/** Cache size of the limits per plan and overrides. */
const MAX_REMEMBERED = 10_000;

export function createPlans(file: PlansFile): Plans {
  const paidWallet = new Set(file.paidWalletEndpoints);
  const made = new Map<string, Limits>();
  return {
    names: Object.keys(file.plans),
    has: (name) => Object.hasOwn(file.plans, name),
    priceOf(name) {
      const { priceUsd = 0, creditsLimit = 0 } = (Object.hasOwn(file.plans, name) ? file.plans[name] : undefined) ?? {};
      return priceUsd > 0 && creditsLimit > 0 ? { usd: priceUsd, credits: creditsLimit } : null;
    },
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

/** The limits of a project: its plan with its overrides. null = no limit. */
export interface Limits {
  readonly plan: string;
  /** Credits per cycle. */
  readonly creditsLimit: number;
  /** Overage: credits per cycle after those of the plan and the prepaid ones. */
  readonly overageCredits: number;
  readonly invoiced: boolean;
  /** Last segments of wallet routes that the plan excludes; null: none. */
  readonly refusedWallet: ReadonlySet<string> | null;
  /** By group; a missing group has no limit, 0 means that the plan excludes its methods. */
  readonly ratePerSecond: ReadonlyMap<string, number>;
  readonly burstFactor: number;
  readonly webhooks: { readonly max: number | null; readonly addressesPerWebhook: number };
  readonly batch: PlanBatchLimits;
  readonly budgets: Budgets;
}

export interface PlanBatchLimits {
  readonly maxItems: number | null;
  /** Maximum items of methods that read the archive, except `getTransaction`. */
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
    /** Credits per cycle. */
    creditsLimit: count,
    /** Whether usage records show a billing cycle. */
    invoiced: Type.Boolean(),
    features,
    ratePerSecond: rates,
    webhooks,
    batch,
    budgets: Type.Optional(budgets),
    /** US dollars per month; only informative. */
    priceUsd: Type.Optional(Type.Number({ minimum: 0 })),
  },
  closed,
);

/** A plans file, as `config/plans.yaml` is one. */
export const plansSchema = Type.Object(
  {
    plans: Type.Record(Type.String({ pattern: '^[a-z][a-z0-9_-]{0,31}$' }), plan, { minProperties: 1 }),
    burstFactor: Type.Number({ minimum: 1 }),
    /** Defaults of all plans. */
    budgets: Type.Optional(budgets),
    paidWalletEndpoints: Type.Array(Type.String()),
  },
  closed,
);

/** The overrides of a project, including its overage credits. */
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

/** Checks that all plans named by configuration and projects exist. Errors: ACCESS_UNKNOWN_PLAN, exit 78. */
export async function checkStoredPlans(store: Store, plans: Plans, config: AccessConfig): Promise<void> {
  const used = await tables(store.read).selectFrom('projects').select('plan').distinct().execute();
  const missing = [config.defaultPlan, ...used.map(({ plan }) => plan)].filter((plan) => !plans.has(plan));
  if (missing.length === 0) return;
  throw new CodedError(
    'ACCESS_UNKNOWN_PLAN',
    `${ACCESS_ERRORS.ACCESS_UNKNOWN_PLAN}: ${[...new Set(missing)].join(', ')}`,
    {
      exitCode: EXIT.config,
    },
  );
}

/** The service `AccessPlans`. */
export function createAllowance(plans: () => Plans): AccessPlans {
  const limitsOf = async (db: Queries, projectId: string): Promise<Limits | null> => {
    const row = await tables(db)
      .selectFrom('projects')
      .select(['plan', 'overrides'])
      .where('id', '=', projectId)
      .executeTakeFirst();
    return row === undefined ? null : plans().limitsOf(row.plan, row.overrides);
  };
  return {
    maxWebhooks: async (db, projectId) => (await limitsOf(db, projectId))?.webhooks.max ?? null,
    maxAddresses: async (db, projectId) => (await limitsOf(db, projectId))?.webhooks.addressesPerWebhook ?? null,
    budgets: async (db, projectId) => (await limitsOf(db, projectId))?.budgets ?? null,
  };
}

const MIB = 2 ** 20;
const ADDRESSES = 100_000;
/** Batch limits of every plan except `unlimited`. */
const BATCH = {
  maxItems: 100,
  historicalMax: 10,
  getTransactionMax: 100,
  notBatchable: ['getTransactionsForAddress', 'getSignaturesForAddress'],
};

const free = {
  creditsLimit: 1_000_000,
  invoiced: false,
  features: { paidWallet: false },
  ratePerSecond: {
    rpc: 10,
    das: 2,
    sendTransaction: 1,
    sendBundle: 0,
    simulateBundle: 10,
    getProgramAccounts: 5,
    photon: 2,
    getValidityProof: 1,
    sender: 50,
  },
  webhooks: { max: 5, addressesPerWebhook: ADDRESSES },
  batch: BATCH,
  budgets: {
    requestBytes: 16 * MIB,
    answerBytes: 32 * MIB,
    upstreamCalls: 16,
    sockets: 50,
    subscriptions: 1_000,
    subscriptionBytes: 1_000_000,
    newWalletsPerMinute: 10,
    wallets: 100,
    walletTransactions: 1_000_000,
    storedEvents: 10_000,
    storedEventBytes: 64 * MIB,
    replays: 1,
    streams: 5,
    streamFilters: 64,
    streamFilterBytes: MIB,
    passedStreams: 1,
  },
  priceUsd: 0,
};

const developer = {
  creditsLimit: 10_000_000,
  invoiced: true,
  features: { paidWallet: true },
  ratePerSecond: {
    rpc: 50,
    das: 10,
    sendTransaction: 5,
    sendBundle: 0,
    simulateBundle: 50,
    getProgramAccounts: 25,
    photon: 10,
    getValidityProof: 5,
    sender: 50,
  },
  webhooks: { max: 50, addressesPerWebhook: ADDRESSES },
  batch: BATCH,
  budgets: {
    requestBytes: 64 * MIB,
    answerBytes: 128 * MIB,
    upstreamCalls: 32,
    sockets: 250,
    subscriptions: 1_000,
    subscriptionBytes: 1_000_000,
    newWalletsPerMinute: 60,
    wallets: 1_000,
    walletTransactions: 10_000_000,
    storedEvents: 100_000,
    storedEventBytes: 512 * MIB,
    replays: 2,
    streams: 20,
    streamFilters: 256,
    streamFilterBytes: 16 * MIB,
    passedStreams: 5,
  },
  priceUsd: 49,
};

const business = {
  ...developer,
  creditsLimit: 100_000_000,
  ratePerSecond: {
    rpc: 200,
    das: 50,
    sendTransaction: 50,
    sendBundle: 5,
    simulateBundle: 200,
    getProgramAccounts: 50,
    photon: 50,
    getValidityProof: 10,
    sender: 50,
  },
  budgets: {
    requestBytes: 128 * MIB,
    answerBytes: 256 * MIB,
    upstreamCalls: 48,
    sockets: 1_000,
    subscriptions: 4_000,
    subscriptionBytes: 4_000_000,
    newWalletsPerMinute: 300,
    wallets: 10_000,
    walletTransactions: 50_000_000,
    storedEvents: 500_000,
    storedEventBytes: 2_048 * MIB,
    replays: 5,
    streams: 100,
    streamFilters: 1_024,
    streamFilterBytes: 64 * MIB,
    passedStreams: 20,
  },
  priceUsd: 499,
};

/**
 * The plans without `access.plansFile`: the numbers that the hosted service publishes, and `unlimited`. `config/plans.yaml` says the same to
 * those who write their own; to read it cost a tenth of a second of each thread's start.
 */
export const PUBLISHED_PLANS: PlansFile = {
  plans: {
    free,
    agent: { ...free, features: { paidWallet: true }, priceUsd: 1 },
    developer,
    business,
    professional: {
      ...business,
      creditsLimit: 200_000_000,
      ratePerSecond: {
        rpc: 500,
        das: 100,
        sendTransaction: 100,
        sendBundle: 5,
        simulateBundle: 500,
        getProgramAccounts: 75,
        photon: 100,
        getValidityProof: 20,
        sender: 50,
      },
      priceUsd: 999,
    },
    unlimited: {
      // A number, because clients read an integer: the largest that JavaScript can hold.
      creditsLimit: Number.MAX_SAFE_INTEGER,
      // No period is billed. Typed clients demand a billing cycle of every plan but the free ones.
      invoiced: true,
      features: { paidWallet: true },
      ratePerSecond: {},
      webhooks: { max: null, addressesPerWebhook: ADDRESSES },
      batch: { maxItems: 1_000 },
      priceUsd: 0,
    },
  },
  burstFactor: 2,
  paidWalletEndpoints: ['identity', 'batch-identity', 'funded-by'],
};
