import { toCredits, toMicro } from './amount.ts';

/** Credits of a project in a cycle as the store knows them, in millionths. */
export interface Spent {
  /** Of the plan, and those beyond all others. */
  readonly regular: bigint;
  /** Prepaid ones in this cycle. */
  readonly prepaid: bigint;
  /** Prepaid ones that are left; they are not bound to a cycle. */
  readonly prepaidLeft: bigint;
}

export interface Allowance {
  /** Whole credits. */
  readonly creditsLimit: number;
  readonly overageCredits: number;
}

/** How an amount is spent: the plan's credits first, then prepaid ones, then those beyond, which count as regular. */
export function split(amount: bigint, spent: Spent, { creditsLimit }: Allowance): { regular: bigint; prepaid: bigint } {
  const ofPlan = least(amount, most(toMicro(creditsLimit, 0) - spent.regular, 0n));
  const prepaid = least(amount - ofPlan, most(spent.prepaidLeft, 0n));
  return { regular: amount - prepaid, prepaid };
}

/** Credits of all three kinds that can still be spent. */
export function creditsLeft(spent: Spent, { creditsLimit, overageCredits }: Allowance): number {
  const ofCycle = toMicro(creditsLimit, 0) + toMicro(overageCredits, 0) - spent.regular;
  return toCredits(most(ofCycle, 0n) + most(spent.prepaidLeft, 0n));
}

const least = (one: bigint, other: bigint) => (one < other ? one : other);
const most = (one: bigint, other: bigint) => (one > other ? one : other);
