/**
 * The priority fees of one block, as bytes for the store and as typed arrays for the answers. A block of 500 priced
 * transactions that write to 2,000 accounts takes about 30 kB.
 */
import type { ChainBlock, NormalTransaction } from '../../src/ports/block.ts';
import { computeUnitPrice } from '../../src/solana/compute-budget.ts';
import { createKeyHash, hashKey, hashView, type KeyHash } from '../../src/solana/key-hash.ts';

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

export function hashAccount(key: Uint8Array): AccountHash {
  const view = new DataView(key.buffer, key.byteOffset, 32);
  return { high: hashView(HIGH, view, 0) >>> 0, low: hashView(LOW, view, 0) >>> 0 };
}

/** The fees of a block and how many transactions are in them; failed transactions and those without a price do not count. */
export function packFees(block: ChainBlock): { readonly bytes: Buffer; readonly samples: number } {
  const priced = block.transactions.filter((one) => one.error === null);
  const rates = new Map<NormalTransaction, number>();
  for (const one of priced) {
    const rate = computeUnitPrice(one, block.keys);
    if (rate !== null) rates.set(one, rate);
  }
  // Only the runtime's limits keep a block below this; what is beyond is left out rather than misread.
  const samples = [...rates.keys()].sort((a, b) => Number(a.isVote) - Number(b.isVote)).slice(0, 0xffff);
  const votes = samples.filter(({ isVote }) => isVote).length;
  const writers = new Map<number, number[]>();
  samples.forEach((transaction, index) => {
    eachWritable(transaction, (key) => {
      const list = writers.get(key);
      if (list === undefined) writers.set(key, [index]);
      else list.push(index);
    });
  });
  const accounts = [...writers].map(([key, list]) => ({ ...hashId(block, key), list }));
  accounts.sort((a, b) => a.high - b.high || a.low - b.low);
  const pairs = accounts.reduce((sum, { list }) => sum + list.length, 0);
  const bytes = Buffer.alloc(HEADER_BYTES + samples.length * 8 + accounts.length * 12 + pairs * 2);
  bytes.writeUInt32LE(FORMAT, 0);
  bytes.writeUInt32LE(samples.length - votes, 4);
  bytes.writeUInt32LE(votes, 8);
  bytes.writeUInt32LE(accounts.length, 12);
  let at = HEADER_BYTES;
  for (const one of samples) at = bytes.writeDoubleLE(rates.get(one)!, at);
  for (const { high } of accounts) at = bytes.writeUInt32LE(high, at);
  for (const { low } of accounts) at = bytes.writeUInt32LE(low, at);
  let end = 0;
  for (const { list } of accounts) {
    end += list.length;
    at = bytes.writeUInt32LE(end, at);
  }
  for (const { list } of accounts) for (const index of list) at = bytes.writeUInt16LE(index, at);
  return { bytes, samples: samples.length };
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
    ...{ rates, normal, accounts },
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
