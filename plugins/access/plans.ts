import { readFileSync } from 'node:fs';
import { type Static, type TSchema, Type } from '@sinclair/typebox';
import { Ajv } from 'ajv';
import { parse } from 'yaml';
import { CodedError, messageOf } from '../../src/lib/coded-error.ts';
import { isPlainSchema, matches } from '../../src/lib/plain-schema.ts';
import { type AccessPlans, BUDGETS, type BudgetName, type Budgets } from '../../src/ports/access.ts';
import type { Queries, Store } from '../../src/ports/store.ts';
import type { AccessConfig } from './config.ts';
import { ACCESS_ERRORS } from './errors.ts';
import { PUBLISHED_PLANS } from './published-plans.ts';
import { tables } from './tables.ts';

/** The plans of the plans file. */
export interface Plans {
  readonly names: readonly string[];
  has(name: string): boolean;
  /** The limits of a project with this plan; null if the plan does not exist. `overrides` is the stored JSON. */
  limitsOf(plan: string, overrides: string | null): Limits | null;
}

/** Cache size of the limits per plan and overrides. */
const MAX_REMEMBERED = 10_000;

function createPlans(file: PlansFile): Plans {
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
  readonly batch: BatchLimits;
  readonly budgets: Budgets;
}

export interface BatchLimits {
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
const plansSchema = Type.Object(
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

const CONFIG = 78;

/** Reads the plans file; null: the published plans. Errors: ACCESS_PLANS_INVALID, exit 78. */
export function loadPlans(path: string | null): Plans {
  if (path === null) return createPlans(PUBLISHED_PLANS);
  let value: unknown;
  try {
    value = parse(readFileSync(path, 'utf8'));
  } catch (error) {
    throw invalid(path, [messageOf(error)]);
  }
  const problems = problemsOf(plansSchema, value);
  if (problems.length > 0) throw invalid(path, problems);
  return createPlans(value as PlansFile);
}

function invalid(path: string, problems: readonly string[]): CodedError {
  const message = `${ACCESS_ERRORS.ACCESS_PLANS_INVALID}: ${path}: ${problems.join('; ')}`;
  return new CodedError('ACCESS_PLANS_INVALID', message, { exitCode: CONFIG, facts: { file: path, problems } });
}

const NO_FORMATS = new Map<string, never>();

/** All problems of a value, each with its path; empty if it is valid. */
export function problemsOf(schema: TSchema, value: unknown): readonly string[] {
  if (isPlainSchema(schema) && matches(schema, value, NO_FORMATS)) return [];
  const ajv = new Ajv({ strict: false, allErrors: true, code: { optimize: false } });
  const check = ajv.compile(schema);
  if (check(value)) return [];
  const lines = (check.errors ?? [])
    // Skip the errors of the branches of a union; the union itself reports one.
    .filter(({ keyword }) => keyword !== 'anyOf')
    .map(({ instancePath, message, params }) => {
      const unknown: unknown = params['additionalProperty'];
      const place = instancePath === '' ? 'the file' : instancePath.slice(1).replaceAll('/', '.');
      return typeof unknown === 'string' ? `${place}: unknown key "${unknown}"` : `${place}: ${message}`;
    });
  return [...new Set(lines)];
}

/** Checks that all plans named by configuration and projects exist. Errors: ACCESS_UNKNOWN_PLAN, exit 78. */
export async function checkStoredPlans(store: Store, plans: Plans, config: AccessConfig): Promise<void> {
  const used = await tables(store.read).selectFrom('projects').select('plan').distinct().execute();
  const missing = [config.defaultPlan, ...used.map(({ plan }) => plan)].filter((plan) => !plans.has(plan));
  if (missing.length === 0) return;
  throw new CodedError(
    'ACCESS_UNKNOWN_PLAN',
    `${ACCESS_ERRORS.ACCESS_UNKNOWN_PLAN}: ${[...new Set(missing)].join(', ')}`,
    {
      exitCode: CONFIG,
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
