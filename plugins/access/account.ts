import type { Product } from '../../src/plugin/plugin.ts';
import type { Limits } from './plans.ts';
import { type Buckets, createSlidingWindow, type SlidingWindow } from './rates.ts';

/** Unwritten usage of one product. */
interface Count {
  readonly credits: Amount;
  requests: number;
  bytes: number;
}

/** Unwritten usage of a project on one day. */
export interface DayCount {
  readonly day: string;
  readonly cycleStart: string;
  readonly products: Map<Product, Count>;
}

/** A project as known to this process: its limits, remaining credits, and usage since the last write. */
export interface ProjectAccount {
  readonly projectId: string;
  /** Its keys and jobs are refused. */
  isDisabled: boolean;
  limits: Limits;
  billingDay: number;
  cycle: Cycle;
  /** Remaining credits of all kinds at the last read from the store. */
  leftCredits: number;
  /** Spent since then. */
  spentCredits: number;
  /** Reserved by calls in flight. */
  reservedCredits: number;
  /** In the main process of the API: held by the other processes, as far as the last read does not have it yet. */
  lentCredits: number;
  /** Usage that the last read had seen: which of two reads is newer. */
  known: { readonly cycleStart: string; readonly total: bigint };
  /** The current day; earlier unwritten days are in `closed`. */
  today: DayCount;
  todayEndMs: number;
  closed: DayCount[];
  /** Has unwritten usage. */
  isDirty: boolean;
  /** Incremented at the start and end of each write: a read that overlaps a write is outdated. */
  revision: number;
  /** Monotonic milliseconds at which the last read of its state began; -Infinity: the project or one of its keys has changed since. */
  readMs: number;
  /** Number of that read, in the order in which reads begin. */
  readNumber: number;
  /** Number of its last noticed change: reads that began before are ignored. */
  changedAt: number;
  readonly buckets: Buckets;
  readonly adminWindow: SlidingWindow;
}

/** A project as stored. */
export interface ProjectState {
  readonly projectId: string;
  readonly isDisabled: boolean;
  readonly limits: Limits;
  readonly billingDay: number;
  /** Usage of the cycle that began on `cycleStart`; other cycles have none. */
  readonly cycleStart: string;
  readonly spent: Spent;
}

/** Maximum calls of the usage endpoint per project in any second. */
const ADMIN_CALLS = 5;
const ADMIN_WINDOW_MS = 1_000;

export function createAccount(state: ProjectState, nowMs: number): ProjectAccount {
  const cycle = cycleOf(state.billingDay, nowMs);
  return {
    projectId: state.projectId,
    isDisabled: state.isDisabled,
    limits: state.limits,
    billingDay: state.billingDay,
    cycle,
    leftCredits: creditsLeft(spentIn(cycle, state), state.limits),
    spentCredits: 0,
    reservedCredits: 0,
    lentCredits: 0,
    known: knownOf(state),
    today: emptyDay(cycle, nowMs),
    todayEndMs: endOfDay(nowMs),
    closed: [],
    isDirty: false,
    revision: 0,
    readMs: Number.NEGATIVE_INFINITY,
    readNumber: 0,
    changedAt: 0,
    buckets: new Map(),
    adminWindow: createSlidingWindow(ADMIN_CALLS, ADMIN_WINDOW_MS),
  };
}

/** Updates the account from the store; `written` is the part of the spent credits that the store now includes. */
export function takeState(account: ProjectAccount, state: ProjectState, nowMs: number, written = 0): void {
  account.isDisabled = state.isDisabled;
  account.limits = state.limits;
  account.billingDay = state.billingDay;
  turnDay(account, nowMs);
  account.spentCredits = Math.max(0, account.spentCredits - written);
  account.leftCredits = creditsLeft(spentIn(account.cycle, state), state.limits);
  account.known = knownOf(state);
}

const knownOf = ({ cycleStart, spent }: ProjectState) => ({ cycleStart, total: totalOf(spent) });

/** All that was spent in a cycle; it only grows. */
export const totalOf = ({ regular, prepaid }: Spent): bigint => regular + prepaid;

/** Whether no write of this account is in flight or uncertain. */
export function isAtRest({ revision }: ProjectAccount): boolean {
  return revision % 2 === 0;
}

/** Whether its credits can be used up; those of the plan `unlimited` cannot. */
export function isMetered({ limits }: ProjectAccount): boolean {
  return limits.creditsLimit < Number.MAX_SAFE_INTEGER;
}

/** Maximum credits of a new call. */
export function affordable(account: ProjectAccount): number {
  return account.leftCredits - account.spentCredits - account.reservedCredits - account.lentCredits;
}

/** Starts a new day, and a new cycle if one begins. */
export function turnDay(account: ProjectAccount, nowMs: number): void {
  if (nowMs < account.todayEndMs && nowMs >= account.cycle.startMs) return;
  if (account.today.products.size > 0) account.closed.push(account.today);
  if (nowMs >= account.cycle.endMs || nowMs < account.cycle.startMs) {
    account.cycle = cycleOf(account.billingDay, nowMs);
    // The remaining prepaid credits are known again after the next read from the store, which is soon.
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

/** Stored credits of a project in a cycle, in millionths. */
export interface Spent {
  /** Regular credits: those of the plan, and overage. */
  readonly regular: bigint;
  /** Prepaid credits used in this cycle. */
  readonly prepaid: bigint;
  /** Remaining prepaid credits; they are not bound to a cycle. */
  readonly prepaidLeft: bigint;
}

interface Allowance {
  /** Whole credits. */
  readonly creditsLimit: number;
  readonly overageCredits: number;
}

/** Splits an amount: credits of the plan first, then prepaid ones, then overage, which counts as regular. */
export function split(amount: bigint, spent: Spent, { creditsLimit }: Allowance): { regular: bigint; prepaid: bigint } {
  const ofPlan = least(amount, most(toMicro(creditsLimit, 0) - spent.regular, 0n));
  const prepaid = least(amount - ofPlan, most(spent.prepaidLeft, 0n));
  return { regular: amount - prepaid, prepaid };
}

/** Remaining credits of all three kinds. */
function creditsLeft(spent: Spent, { creditsLimit, overageCredits }: Allowance): number {
  const ofCycle = toMicro(creditsLimit, 0) + toMicro(overageCredits, 0) - spent.regular;
  return toCredits(most(ofCycle, 0n) + most(spent.prepaidLeft, 0n));
}

const least = (one: bigint, other: bigint) => (one < other ? one : other);
const most = (one: bigint, other: bigint) => (one > other ? one : other);

/**
 * Credits without rounding. Prices are usually whole credits, with a resolution of one millionth. Both parts are kept as integers, in
 * memory and in the store, so that sums are exact for any number of calls.
 */
interface Amount {
  whole: number;
  /** Millionths of a credit; may exceed one credit. */
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

/** Both parts of a nonnegative sum. */
export function fromMicro(micro: bigint): Amount {
  return { whole: Number(micro / MICRO_BIG), micro: Number(micro % MICRO_BIG) };
}

/** Whole credits, rounded half up. Round only once, for display. */
export function rounded(micro: bigint): number {
  return Number((micro + MICRO_BIG / 2n) / MICRO_BIG);
}

/** Credits as a number, for comparisons only: exact for whole credits. */
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

/** The cycle that contains a time, for a billing day of 1 to 31; in a shorter month its last day counts. */
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

/** End of the day that contains a time, unix milliseconds. */
function endOfDay(atMs: number): number {
  return (Math.floor(atMs / DAY_MS) + 1) * DAY_MS;
}

/** The billing day of a project that was created at this time. */
export function billingDayOf(beganMs: number): number {
  return new Date(beganMs).getUTCDate();
}

/** `month` may be -1 or 12: the adjacent month of the year before or after. */
function turnOf(billingDay: number, year: number, month: number): number {
  const lastDay = new Date(Date.UTC(year, month + 1, 0)).getUTCDate();
  return Date.UTC(year, month, Math.min(billingDay, lastDay));
}
