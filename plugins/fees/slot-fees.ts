import { decode32 } from '../../src/lib/base58.ts';
import { lazy } from '../../src/lib/lazy.ts';
import type { ChainBlock, KeyTable, NormalTransaction } from '../../src/ports/block.ts';
import { createKeyHash, hashKey, hashView, type KeyHash } from '../../src/solana/key-hash.ts';
import { COMPUTE_BUDGET_PROGRAM } from '../../src/solana/programs.ts';

/**
 * The priority fees of one block, as bytes for the store and as typed arrays for the answers. A block of 500 priced
 * transactions that write to 2,000 accounts takes about 30 kB.
 */

export interface SlotFees {
  /** Micro-lamports per compute unit of the transactions that are no votes, then of the votes. */
  readonly rates: Float64Array;
  /** How many of `rates` belong to transactions that are no votes. */
  readonly normal: number;
  /** How many accounts are written by them. */
  readonly accounts: number;
  /** Calls back with the index into `rates` of each transaction that writes to the account. False when none does. */
  each(account: AccountHash, use: (index: number) => void): boolean;
}

export interface AccountHash {
  readonly high: number;
  readonly low: number;
}

/**
 * Accounts are kept as 64 bits of a hash, an eighth of a key. The seeds are public, because processes share the rows: whoever makes two
 * accounts collide raises the estimate of one by writing to the other, and anybody may write-lock the first one directly.
 */
const HIGH: KeyHash = createKeyHash(Uint32Array.of(0x9e3779b1, 0x85ebca77, 0xc2b2ae3d, 0x27d4eb2f), true);
const LOW: KeyHash = createKeyHash(Uint32Array.of(0x165667b1, 0xd3a2646c, 0xfd7046c5, 0xb55a4f09), true);

const FORMAT = 1;
/** Format, rates of normal transactions, rates of votes, accounts: 32 bits each. */
const HEADER_BYTES = 16;
/** More keys than a block can have, and few enough for a position and 32 bits in the 53 bits of a number. */
const MAX_KEYS = 2 ** 21;

export function hashAccount(key: Uint8Array): AccountHash {
  const view = new DataView(key.buffer, key.byteOffset, 32);
  return { high: hashView(HIGH, view, 0) >>> 0, low: hashView(LOW, view, 0) >>> 0 };
}

/** The fees of a block and how many transactions are in them; failed transactions and those without a price do not count. */
export function packFees(block: ChainBlock): { readonly bytes: Buffer; readonly samples: number } {
  const { samples, prices, normal } = pricedTransactions(block);
  const { accounts, pairs, endOf, order } = writtenAccounts(block, samples);
  const buffer = new ArrayBuffer(HEADER_BYTES + samples.length * 8 + accounts * 12 + pairs * 2);
  new Uint32Array(buffer, 0, 4).set([FORMAT, normal, samples.length - normal, accounts]);
  new Float64Array(buffer, HEADER_BYTES, samples.length).set(prices);
  const highAt = HEADER_BYTES + samples.length * 8;
  const highs = new Uint32Array(buffer, highAt, accounts);
  const lows = new Uint32Array(buffer, highAt + accounts * 4, accounts);
  const ends = new Uint32Array(buffer, highAt + accounts * 8, accounts);
  const indexes = new Uint16Array(buffer, highAt + accounts * 12, pairs);
  // From here on `endOf` of a key is where its next index goes.
  let end = 0;
  for (let at = 0; at < accounts; at++) {
    const key = order.keys[at]!;
    highs[at] = order.highs[at]!;
    lows[at] = order.lows[at]!;
    const start = end;
    end += endOf[key]!;
    ends[at] = end;
    endOf[key] = start;
  }
  samples.forEach((transaction, index) => {
    eachWritable(transaction, (key) => {
      indexes[endOf[key]!++] = index;
    });
  });
  return { bytes: Buffer.from(buffer), samples: samples.length };
}

/** Transactions that have a price, those that are no votes first: `normal` of them. */
function pricedTransactions({ transactions, keys }: ChainBlock) {
  const samples: NormalTransaction[] = [];
  const prices: number[] = [];
  let normal = 0;
  for (const areVotes of [false, true]) {
    for (const one of transactions) {
      if (one.isVote !== areVotes || one.error !== null) continue;
      const price = computeUnitPrice(one, keys);
      // Only the runtime's limits keep a block below this; what is beyond is left out rather than misread.
      if (price === null || samples.length === 0xffff) continue;
      samples.push(one);
      prices.push(price);
    }
    if (!areVotes) normal = samples.length;
  }
  return { samples, prices, normal };
}

/** The accounts that `samples` write to in the order of their hashes, and how often each is written (`endOf`, by key id). */
function writtenAccounts(block: ChainBlock, samples: readonly NormalTransaction[]) {
  const endOf = new Uint32Array(block.keys.size);
  const written: number[] = [];
  let pairs = 0;
  for (const transaction of samples) {
    eachWritable(transaction, (key) => {
      if (endOf[key]!++ === 0) written.push(key);
      pairs++;
    });
  }
  const hashes = written.map((key) => hashId(block, key));
  // A number holds the upper half of a hash and a position exactly, and typed arrays sort numbers without a callback.
  const sorted = Float64Array.from(hashes, ({ high }, at) => high * MAX_KEYS + at).sort();
  const places = Array.from(sorted, (value) => value % MAX_KEYS);
  sortEqualHighs(places, hashes);
  const order = {
    keys: places.map((at) => written[at]!),
    highs: places.map((at) => hashes[at]!.high),
    lows: places.map((at) => hashes[at]!.low),
  };
  return { accounts: written.length, pairs, endOf, order };
}

/** `places` are in the order of `high`; two accounts in millions of blocks share one. */
function sortEqualHighs(places: number[], hashes: readonly AccountHash[]): void {
  for (let at = 1; at < places.length; at++) {
    for (let to = at; to > 0; to--) {
      const [before, after] = [hashes[places[to - 1]!]!, hashes[places[to]!]!];
      if (before.high !== after.high || before.low <= after.low) break;
      [places[to - 1], places[to]] = [places[to]!, places[to - 1]!];
    }
  }
}

/** Reads what `packFees` wrote; null for a format that this version does not know. */
export function unpackFees(packed: Uint8Array): SlotFees | null {
  // Typed arrays need an aligned buffer, and the row's own belongs to the driver.
  const { buffer } = Uint8Array.from(packed);
  const [format, normal = 0, votes = 0, accounts = 0] = new Uint32Array(buffer, 0, 4);
  if (format !== FORMAT) return null;
  const rates = new Float64Array(buffer, HEADER_BYTES, normal + votes);
  const highAt = HEADER_BYTES + rates.byteLength;
  const highs = new Uint32Array(buffer, highAt, accounts);
  const lows = new Uint32Array(buffer, highAt + accounts * 4, accounts);
  const ends = new Uint32Array(buffer, highAt + accounts * 8, accounts);
  const indexes = new Uint16Array(buffer, highAt + accounts * 12);
  return {
    rates,
    normal,
    accounts,
    each({ high, low }, use) {
      let from = 0;
      let to = accounts;
      while (from < to) {
        const middle = (from + to) >> 1;
        if (highs[middle]! < high || (highs[middle] === high && lows[middle]! < low)) from = middle + 1;
        else to = middle;
      }
      if (from >= accounts || highs[from] !== high || lows[from] !== low) return false;
      for (let at = from === 0 ? 0 : ends[from - 1]!; at < ends[from]!; at++) use(indexes[at]!);
      return true;
    },
  };
}

function hashId({ keys: { words } }: ChainBlock, id: number): AccountHash {
  return { high: hashKey(HIGH, words, id * 8) >>> 0, low: hashKey(LOW, words, id * 8) >>> 0 };
}

/** Keys that the message asks to write to, whatever the runtime makes of it. */
function eachWritable(
  { header, keys, staticKeyCount, loadedWritableCount }: NormalTransaction,
  use: (key: number) => void,
) {
  const signers = header.numRequiredSignatures;
  const writableSigners = signers - header.numReadonlySignedAccounts;
  const writable = staticKeyCount - header.numReadonlyUnsignedAccounts;
  for (let at = 0; at < staticKeyCount; at++) {
    if (at < writableSigners || (at >= signers && at < writable)) use(keys[at]!);
  }
  for (let at = staticKeyCount; at < staticKeyCount + loadedWritableCount; at++) use(keys[at]!);
}

/**
 * The published estimate: percentiles of what was paid by all transactions, and of what was paid for writing to each account; of each level
 * the highest counts.
 */

export const LEVELS = { min: 0, low: 0.25, medium: 0.5, high: 0.75, veryHigh: 0.95, unsafeMax: 1 } as const;
const LEVEL_ENTRIES = Object.entries(LEVELS) as [keyof typeof LEVELS, number][];

export type Levels = Record<keyof typeof LEVELS, number>;

/** Details of one list of fees; null where the list is empty. */
export interface FeeDetails {
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
  readonly details: readonly (readonly [string, FeeDetails])[];
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
  const details = [...named].map(([name, { times: _, ...one }]) => [name, one as FeeDetails] as const);
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

export interface Statistics extends FeeDetails {
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

const PROGRAM = lazy(() => decode32(COMPUTE_BUDGET_PROGRAM)!);
const SET_COMPUTE_UNIT_PRICE = 3;
const MICRO_LAMPORTS = 1_000_000n;
const U64_MAX = 0xffff_ffff_ffff_ffffn;

/**
 * Price per compute unit in addition to the base fee, in micro-lamports; 0 by default. Null for a version 1 transaction
 * without a compute unit limit: its header contains the total fee, so there is no rate.
 */
function computeUnitPrice(transaction: NormalTransaction, keys: KeyTable): number | null {
  if (transaction.version === 1) return headerPrice(transaction);
  const program = keys.find(PROGRAM());
  if (program < 0) return 0;
  for (const { programIndex, data } of transaction.instructions) {
    if (transaction.keys[programIndex] !== program || data[0] !== SET_COMPUTE_UNIT_PRICE || data.length < 9) continue;
    // The runtime refuses a second one.
    return Number(new DataView(data.buffer, data.byteOffset).getBigUint64(1, true));
  }
  return 0;
}

/** The total fee divided by the limit, rounded down; null without a limit. */
function headerPrice({ config }: NormalTransaction): number | null {
  if (config === null || config.computeUnitLimit === null || config.computeUnitLimit === 0) return null;
  const rate = ((config.priorityFee ?? 0n) * MICRO_LAMPORTS) / BigInt(config.computeUnitLimit);
  return Number(rate < U64_MAX ? rate : U64_MAX);
}
