import type { Product } from '../../../src/kernel/plugin.ts';
import { type Cycle, cycleOf, dayOf, endOfDay } from '../cycle.ts';
import type { Limits } from '../plans/limits.ts';
import type { Buckets } from '../rates/rates.ts';
import { createSlidingWindow, type SlidingWindow } from '../rates/window.ts';
import { type Amount, zero } from './amount.ts';
import { creditsLeft, type Spent } from './spending.ts';

/** Calls of one product that are not written yet. */
export interface Count {
  readonly credits: Amount;
  requests: number;
  bytes: number;
}

/** What a project used on one day and is not written yet. */
export interface DayCount {
  readonly day: string;
  readonly cycleStart: string;
  readonly products: Map<Product, Count>;
}

/** What this process knows of a project: its limits, what is left, and what it used since the last write. */
export interface Account {
  readonly projectId: string;
  limits: Limits;
  billingDay: number;
  cycle: Cycle;
  /** Credits of all kinds that were left when the store was last asked. */
  leftCredits: number;
  /** Spent since then. */
  spentCredits: number;
  /** Of calls that run. */
  reservedCredits: number;
  /** The open day; the ones before it wait in `closed`. */
  today: DayCount;
  todayEndMs: number;
  closed: DayCount[];
  /** Something waits to be written. */
  isDirty: boolean;
  /** One more whenever a write begins and when it ends: what was read beside it is out of date. */
  revision: number;
  /** Monotonic milliseconds: what was asked before is not believed, because the project or one of its keys was changed. */
  changedMs: number;
  readonly buckets: Buckets;
  readonly adminWindow: SlidingWindow;
}

/** What the store says about a project. */
export interface ProjectState {
  readonly projectId: string;
  readonly limits: Limits;
  readonly billingDay: number;
  /** Of the cycle that began on `cycleStart`; another one has none. */
  readonly cycleStart: string;
  readonly spent: Spent;
}

/** Calls of the usage endpoint of one project in any second. */
const ADMIN_CALLS = 5;
const ADMIN_WINDOW_MS = 1_000;

export function createAccount(state: ProjectState, nowMs: number): Account {
  const cycle = cycleOf(state.billingDay, nowMs);
  return {
    projectId: state.projectId,
    limits: state.limits,
    billingDay: state.billingDay,
    cycle,
    leftCredits: creditsLeft(spentIn(cycle, state), state.limits),
    spentCredits: 0,
    reservedCredits: 0,
    today: emptyDay(cycle, nowMs),
    todayEndMs: endOfDay(nowMs),
    closed: [],
    isDirty: false,
    revision: 0,
    changedMs: Number.NEGATIVE_INFINITY,
    buckets: new Map(),
    adminWindow: createSlidingWindow(ADMIN_CALLS, ADMIN_WINDOW_MS),
  };
}

/** Takes what the store says now; `written` is what of the spent credits it holds meanwhile. */
export function takeState(account: Account, state: ProjectState, nowMs: number, written = 0): void {
  account.limits = state.limits;
  account.billingDay = state.billingDay;
  turnDay(account, nowMs);
  account.spentCredits = Math.max(0, account.spentCredits - written);
  account.leftCredits = creditsLeft(spentIn(account.cycle, state), state.limits);
}

/** No write of its counts runs or is unsure. */
export function isAtRest({ revision }: Account): boolean {
  return revision % 2 === 0;
}

/** Credits that a new call may cost at most. */
export function affordable(account: Account): number {
  return account.leftCredits - account.spentCredits - account.reservedCredits;
}

/** Begins a new day, and a new cycle where one begins, when the time has come. */
export function turnDay(account: Account, nowMs: number): void {
  if (nowMs < account.todayEndMs && nowMs >= account.cycle.startMs) return;
  if (account.today.products.size > 0) account.closed.push(account.today);
  if (nowMs >= account.cycle.endMs || nowMs < account.cycle.startMs) {
    account.cycle = cycleOf(account.billingDay, nowMs);
    // What is left of prepaid credits is known again with the next look at the store, which is soon.
    const { creditsLimit, overageCredits } = account.limits;
    account.leftCredits = Math.max(account.leftCredits - account.spentCredits, creditsLimit + overageCredits);
    account.spentCredits = 0;
  }
  account.today = emptyDay(account.cycle, nowMs);
  account.todayEndMs = endOfDay(nowMs);
}

export function countOf(day: DayCount, product: Product): Count {
  let count = day.products.get(product);
  if (count === undefined) {
    count = { credits: zero(), requests: 0, bytes: 0 };
    day.products.set(product, count);
  }
  return count;
}

function emptyDay(cycle: Cycle, nowMs: number): DayCount {
  return { day: dayOf(nowMs), cycleStart: cycle.start, products: new Map() };
}

function spentIn(cycle: Cycle, { cycleStart, spent }: ProjectState): Spent {
  return cycleStart === cycle.start ? spent : { regular: 0n, prepaid: 0n, prepaidLeft: spent.prepaidLeft };
}
