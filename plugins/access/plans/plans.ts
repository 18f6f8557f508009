import type { Limits } from './limits.ts';
import type { Overrides, Plan, PlansFile } from './schema.ts';

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
      const limits = layOver(name, plan, own, file.burstFactor, paidWallet);
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
  burstFactor: number,
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
  };
}
