import { TREE_TYPE } from '../../../src/solana/compression/events.ts';
import type { Poseidon } from '../../../src/solana/merkle/poseidon/index.ts';

/** A leaf of an address tree. */
export interface IndexedValue {
  readonly value: Uint8Array;
  readonly next_index: number;
  readonly next_value: Uint8Array;
}

const HASH_BYTES = 32;

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
