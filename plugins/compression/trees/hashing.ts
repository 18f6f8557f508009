import { setImmediate as yieldToOthers } from 'node:timers/promises';
import { lazy } from '../../../src/lib/lazy.ts';
import type { Counter } from '../../../src/ports/telemetry.ts';
import { TREE_TYPE } from '../../../src/solana/compression/events.ts';
import { HASH_BYTES, zeroHashes } from '../../../src/solana/merkle/path.ts';
import { createPoseidon, type Poseidon } from '../../../src/solana/merkle/poseidon.ts';
import {
  type LeafChange,
  type TreeChange,
  type UpdatedTree,
  updateTrees,
} from '../../../src/solana/merkle/update-trees.ts';

/** The hasher of a thread with derived constants. One instance per thread; hashes never overlap. */
export interface Hashing {
  readonly poseidon: Poseidon;
  /** Concatenated hashes of empty subtrees up to the greatest height. */
  readonly zeros: Uint8Array;
  /** Changes leaves and rehashes the nodes above them, each node once. */
  update(changes: readonly TreeChange[]): readonly UpdatedTree[];
}

/** Levels of the highest tree. */
const MAX_HEIGHT = 40;

/** Created on first use, once per thread. */
const hasher = lazy(() => {
  const poseidon = createPoseidon();
  return { poseidon, zeros: zeroHashes(poseidon, MAX_HEIGHT) };
});

/** `count` counts computed hashes. */
export function createHashing(count: Pick<Counter, 'add'>): Hashing {
  return {
    get poseidon() {
      return hasher().poseidon;
    },
    get zeros() {
      return hasher().zeros;
    },
    update(changes) {
      const { poseidon, zeros } = hasher();
      const { trees, hashCount } = updateTrees(poseidon, zeros, changes);
      count.add(hashCount);
      return trees;
    },
  };
}

/** Root of an empty tree. */
export const emptyRoot = ({ zeros }: Hashing, height: number): Uint8Array =>
  zeros.slice(height * HASH_BYTES, (height + 1) * HASH_BYTES);

/** A leaf of an address tree. */
export interface IndexedValue {
  readonly value: Uint8Array;
  readonly next_index: number;
  readonly next_value: Uint8Array;
}

export const isAddressTree = (type: number): boolean => type === TREE_TYPE.addressV1 || type === TREE_TYPE.addressV2;
export const isStateTree = (type: number): boolean => type === TREE_TYPE.stateV1 || type === TREE_TYPE.stateV2;
export const isV1 = (type: number): boolean => type === TREE_TYPE.stateV1 || type === TREE_TYPE.addressV1;

/** Hashes leaves of an address tree: V1 (value, next index, next value), V2 (value, next value). Errors: POSEIDON_INPUT_TOO_LARGE. */
export function hashIndexedLeaves(poseidon: Poseidon, type: number, leaves: readonly IndexedValue[]): Uint8Array[] {
  const inputs = type === TREE_TYPE.addressV1 ? 3 : 2;
  const bytes = Buffer.alloc(leaves.length * inputs * HASH_BYTES);
  leaves.forEach(({ value, next_index, next_value }, i) => {
    const at = i * inputs * HASH_BYTES;
    bytes.set(value, at);
    if (inputs === 3) bytes.writeBigUInt64BE(BigInt(next_index), at + 2 * HASH_BYTES - 8);
    bytes.set(next_value, at + (inputs - 1) * HASH_BYTES);
  });
  const hashes = new Uint8Array(leaves.length * HASH_BYTES);
  poseidon.hash(inputs, bytes, 0, hashes, 0, leaves.length);
  return leaves.map((_, i) => hashes.subarray(i * HASH_BYTES, (i + 1) * HASH_BYTES));
}

/**
 * Reason of trees in the state `gap` whose rows cannot show when they are complete, because the past was never read, or is
 * being read again: only the account on the chain can.
 */
export const HISTORY = 'history';

/** Initial contents of a tree. */
interface FreshTree {
  readonly seq: number;
  readonly nextIndex: number;
  /** Rows of an address tree, in the order of leaves. */
  readonly values: readonly IndexedValue[];
  readonly leaves: readonly LeafChange[];
}

const ZERO = new Uint8Array(32);
/** Above every valid address: 2^248 - 1. */
const HIGHEST_ADDRESS: Uint8Array = new Uint8Array(32).fill(0xff, 1);
/** A V1 address tree is initialized by three updates. */
const READY_SEQ = 3;

export function freshTree({ poseidon }: Hashing, type: number): FreshTree {
  const values = startOf(type);
  const hashes = hashIndexedLeaves(poseidon, type, values);
  return {
    seq: type === TREE_TYPE.addressV1 ? READY_SEQ : 0,
    nextIndex: values.length,
    values,
    leaves: hashes.map((hash, index) => ({ index, hash })),
  };
}

function startOf(type: number): readonly IndexedValue[] {
  const highest = (next_index: number) => ({ value: ZERO, next_index, next_value: HIGHEST_ADDRESS });
  if (type === TREE_TYPE.addressV1) return [highest(1), { value: HIGHEST_ADDRESS, next_index: 0, next_value: ZERO }];
  return type === TREE_TYPE.addressV2 ? [highest(0)] : [];
}

/** Hashes between yields to the event loop: a few milliseconds. */
const HASHES_PER_TURN = 512;

/**
 * The hash chain of each batch of values: starts with the first value and hashes the result with each next value. All batches are
 * processed in parallel. Values are 32 bytes, below the prime.
 */
export async function hashChains(
  poseidon: () => Pick<Poseidon, 'hashPairs'>,
  values: readonly Uint8Array[],
  batchSize: number,
): Promise<readonly Uint8Array[]> {
  const count = Math.floor(values.length / batchSize);
  if (count === 0) return [];
  const pairs = new Uint8Array(count * 2 * HASH_BYTES);
  const sums = new Uint8Array(count * HASH_BYTES);
  const valueAt = (chain: number, step: number) => values[chain * batchSize + step] as Uint8Array;
  for (let chain = 0; chain < count; chain += 1) sums.set(valueAt(chain, 0), chain * HASH_BYTES);
  for (let step = 1, since = 0; step < batchSize; step += 1) {
    for (let chain = 0; chain < count; chain += 1) {
      pairs.set(sums.subarray(chain * HASH_BYTES, (chain + 1) * HASH_BYTES), 2 * chain * HASH_BYTES);
      pairs.set(valueAt(chain, step), (2 * chain + 1) * HASH_BYTES);
    }
    poseidon().hashPairs(pairs, 0, sums, 0, count);
    since += count;
    if (since < HASHES_PER_TURN) continue;
    since = 0;
    // The hasher keeps no state between two calls.
    await yieldToOthers();
  }
  return Array.from({ length: count }, (_, chain) => sums.subarray(chain * HASH_BYTES, (chain + 1) * HASH_BYTES));
}
