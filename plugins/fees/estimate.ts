/**
 * The published estimate: percentiles of what was paid by all transactions, and of what was paid for writing to each account; of each level
 * the highest counts.
 */
import type { AccountHash, SlotFees } from './slot-fees.ts';

export const LEVELS = { min: 0, low: 0.25, medium: 0.5, high: 0.75, veryHigh: 0.95, unsafeMax: 1 } as const;
const LEVEL_ENTRIES = Object.entries(LEVELS) as [keyof typeof LEVELS, number][];

export type Levels = Record<keyof typeof LEVELS, number>;

/** Of one list; what an empty list does not have is null. */
export interface Details {
  readonly estimates: Levels;
  readonly mean: number | null;
  readonly stdev: number | null;
  /** Always null, as the published estimator has it. */
  readonly skew: null;
  readonly count: number;
}

export interface EstimateQuestion {
  /** 2 looks at each account alone, 1 at all of them together. */
  readonly algorithm: 1 | 2;
  readonly accounts: readonly { readonly name: string; readonly hash: AccountHash }[];
  readonly includeVote: boolean;
  /** Whether an account that a slot does not write to counts as 0 there. */
  readonly countEmptySlots: boolean;
}

export interface Estimate {
  readonly levels: Levels;
  /** By name, descending. */
  readonly details: readonly (readonly [string, Details])[];
}

/** `slots` are the newest ones, newest first. `global` may have the statistics of all transactions in them. */
export function estimate(slots: readonly SlotFees[], question: EstimateQuestion, global: Statistics): Estimate {
  const named = new Map<string, Statistics>();
  if (slots.length > 0 || question.algorithm === 1) named.set('Global', global);
  if (question.algorithm === 1) named.set('All Accounts', statisticsOf(ratesOfAny(slots, question)));
  else if (slots.length > 0) {
    // A key that is named twice has every fee twice.
    const times = new Map<string, number>();
    for (const { name } of question.accounts) times.set(name, (times.get(name) ?? 0) + 1);
    for (const { name, hash } of question.accounts) {
      if (!named.has(name)) named.set(name, statisticsOf(ratesOf(slots, hash, question), times.get(name)!));
    }
  }
  const levels = emptyLevels();
  for (const { estimates } of named.values()) {
    for (const [level] of LEVEL_ENTRIES) levels[level] = Math.max(levels[level], estimates[level]);
  }
  const details = [...named].map(([name, { times: _, ...one }]) => [name, one as Details] as const);
  return { levels, details: details.sort(([a], [b]) => (a < b ? 1 : -1)) };
}

/** What all transactions of the slots paid. */
export function globalRates(slots: readonly SlotFees[], includeVote: boolean): Float64Array {
  const parts = slots.map(({ rates, normal }) => (includeVote ? rates : rates.subarray(0, normal)));
  const all = new Float64Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

function ratesOf(slots: readonly SlotFees[], hash: AccountHash, how: EstimateQuestion): Float64Array {
  const list: number[] = [];
  for (const slot of slots) if (!addRates(slot, hash, how, list) && how.countEmptySlots) list.push(0);
  return new Float64Array(list);
}

function ratesOfAny(slots: readonly SlotFees[], how: EstimateQuestion): Float64Array {
  const list: number[] = [];
  // Once each: hundreds of times the busiest account would be a list of millions.
  const accounts = [...new Map(how.accounts.map(({ name, hash }) => [name, hash])).values()];
  if (accounts.length === 0) return new Float64Array();
  for (const slot of slots) {
    const found = accounts.map((hash) => addRates(slot, hash, how, list));
    if (how.countEmptySlots && !found.includes(true)) list.push(0);
  }
  return new Float64Array(list);
}

/** Whether any transaction of the slot, votes included, writes to the account: only then is the slot not empty for it. */
function addRates(slot: SlotFees, hash: AccountHash, { includeVote }: EstimateQuestion, into: number[]): boolean {
  return slot.each(hash, (index) => {
    if (includeVote || index < slot.normal) into.push(slot.rates[index]!);
  });
}

export interface Statistics extends Details {
  readonly times: number;
}

/** Sorts `rates`. `times`: how often each of them counts. */
export function statisticsOf(rates: Float64Array, times = 1): Statistics {
  rates.sort();
  const count = rates.length * times;
  const estimates = emptyLevels();
  if (count === 0) return { estimates, mean: null, stdev: null, skew: null, count, times };
  for (const [level, share] of LEVEL_ENTRIES) estimates[level] = Math.round(quantile(rates, times, share));
  let sum = 0;
  for (const rate of rates) sum += rate;
  const mean = sum / rates.length;
  let squares = 0;
  for (const rate of rates) squares += (rate - mean) ** 2;
  const stdev = count < 2 ? null : Math.round(Math.sqrt((squares * times) / (count - 1)));
  return { estimates, mean: Math.round(mean), stdev, skew: null, count, times };
}

/** Median-unbiased (type 8): the place (n + 1/3) p + 1/3 between sorted values, whose first place is 1. */
function quantile(sorted: Float64Array, times: number, share: number): number {
  const count = sorted.length * times;
  const place = (count + 1 / 3) * share + 1 / 3;
  const below = Math.floor(place);
  if (below <= 0 || share === 0) return sorted[0]!;
  if (below >= count || share === 1) return sorted[sorted.length - 1]!;
  const low = sorted[Math.floor((below - 1) / times)]!;
  const high = sorted[Math.floor(below / times)]!;
  return low + (place - below) * (high - low);
}

const emptyLevels = (): Levels => ({ min: 0, low: 0, medium: 0, high: 0, veryHigh: 0, unsafeMax: 0 });
