import { TREE_TYPE } from '../../../src/solana/compression/events.ts';
import type { LeafChange } from '../../../src/solana/merkle/update-trees.ts';
import type { Hashing } from './hashing.ts';
import { hashIndexedLeaves, type IndexedValue } from './leaf-hash.ts';

/** What stands in a tree before anything was written to it. */
export interface FreshTree {
  readonly seq: number;
  readonly nextIndex: number;
  /** Rows of an address tree, leaf after leaf. */
  readonly values: readonly IndexedValue[];
  readonly leaves: readonly LeafChange[];
}

const ZERO = new Uint8Array(32);
/** Above every address: 2^248 - 1. */
const HIGHEST_ADDRESS: Uint8Array = new Uint8Array(32).fill(0xff, 1);
/** Three updates make a V1 address tree ready. */
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
