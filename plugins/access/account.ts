import type { Product } from '../../src/plugin/plugin.ts';
import type { Limits } from './plans.ts';
import { type Buckets, createSlidingWindow, type SlidingWindow } from './rates.ts';

/** Calls of one product that are not written yet. */
interface Count {
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

/** Credits of a project in a cycle as the store knows them, in millionths. */
export interface Spent {
  /** Of the plan, and those beyond all others. */
  readonly regular: bigint;
  /** Prepaid ones in this cycle. */
  readonly prepaid: bigint;
  /** Prepaid ones that are left; they are not bound to a cycle. */
  readonly prepaidLeft: bigint;
}

interface Allowance {
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
function creditsLeft(spent: Spent, { creditsLimit, overageCredits }: Allowance): number {
  const ofCycle = toMicro(creditsLimit, 0) + toMicro(overageCredits, 0) - spent.regular;
  return toCredits(most(ofCycle, 0n) + most(spent.prepaidLeft, 0n));
}

const least = (one: bigint, other: bigint) => (one < other ? one : other);
const most = (one: bigint, other: bigint) => (one > other ? one : other);

/**
 * Credits without rounding. Prices are whole credits as a rule and may be down to a millionth of one; both parts are kept as integers,
 * in memory and in the store, so that sums are exact however many calls they are of.
 */
interface Amount {
  whole: number;
  /** Millionths of a credit; any number of them. */
  micro: number;
}

const MICRO = 1_000_000;
const MICRO_BIG = 1_000_000n;

const zero = (): Amount => ({ whole: 0, micro: 0 });

export function addCredits(amount: Amount, credits: number): void {
  if (Number.isInteger(credits)) {
    amount.whole += credits;
    return;
  }
  const whole = Math.floor(credits);
  amount.whole += whole;
  amount.micro += Math.round((credits - whole) * MICRO);
}

/** In millionths of a credit. */
export function toMicro(whole: number, micro: number): bigint {
  return BigInt(whole) * MICRO_BIG + BigInt(micro);
}

/** Both parts of a sum that is not negative. */
export function fromMicro(micro: bigint): Amount {
  return { whole: Number(micro / MICRO_BIG), micro: Number(micro % MICRO_BIG) };
}

/** Whole credits, rounded half up: done once, when a sum is shown. */
export function rounded(micro: bigint): number {
  return Number((micro + MICRO_BIG / 2n) / MICRO_BIG);
}

/** As a number for comparisons; exact for whole credits. */
export function toCredits(micro: bigint): number {
  const { whole, micro: rest } = fromMicro(micro < 0n ? 0n : micro);
  return whole + rest / MICRO;
}

const DAY_MS = 86_400_000;

/** A credit cycle: from the first day to the day on which the next one starts, both at 00:00 UTC. */
export interface Cycle {
  /** `YYYY-MM-DD` */
  readonly start: string;
  readonly end: string;
  /** Unix milliseconds. */
  readonly startMs: number;
  readonly endMs: number;
}

/** The cycle that holds a moment, for a billing day of 1 to 31; in a month without that day its last one counts. */
export function cycleOf(billingDay: number, atMs: number): Cycle {
  const at = new Date(atMs);
  const year = at.getUTCFullYear();
  const month = at.getUTCMonth();
  const here = turnOf(billingDay, year, month);
  const [startMs, endMs] =
    atMs >= here ? [here, turnOf(billingDay, year, month + 1)] : [turnOf(billingDay, year, month - 1), here];
  return { start: dayOf(startMs), end: dayOf(endMs), startMs, endMs };
}

/** `YYYY-MM-DD` in UTC. */
function dayOf(atMs: number): string {
  return new Date(atMs).toISOString().slice(0, 10);
}

/** When the day of a moment ends, unix milliseconds. */
function endOfDay(atMs: number): number {
  return (Math.floor(atMs / DAY_MS) + 1) * DAY_MS;
}

/** The day of the month on which a project that began then is billed. */
export function billingDayOf(beganMs: number): number {
  return new Date(beganMs).getUTCDate();
}

/** `month` may be -1 or 12: the neighbour in the year before or after. */
function turnOf(billingDay: number, year: number, month: number): number {
  const lastDay = new Date(Date.UTC(year, month + 1, 0)).getUTCDate();
  return Date.UTC(year, month, Math.min(billingDay, lastDay));
}
