import { encode32 } from '../../../../src/lib/base58.ts';
import type { FullAccount } from './account-rows.ts';
import { discriminatorJson, u64Json } from './u64-json.ts';

/** The methods without a suffix, and those that end in V2. */
export type RecordVersion = 1 | 2;

export interface DataSlice {
  readonly offset: number;
  readonly length: number;
}

/** Stands for a queue, a nullifier or a hash that there is none of. */
export const NO_KEY = '11111111111111111111111111111111';

/** What an account record needs. */
export type RecordedAccount = Omit<FullAccount, 'nullifier' | 'tx_hash' | 'spent'>;

/** An account as the methods of a version show it. */
export function accountRecord(row: RecordedAccount, version: RecordVersion, slice: DataSlice | null = null): object {
  const fixed = {
    hash: encode32(row.hash),
    address: keyOrNull(row.address),
    data: dataRecord(row, slice),
    owner: encode32(row.owner),
    lamports: u64Json(row.lamports),
  };
  const { seq } = row;
  if (version === 1) {
    const { leaf_index: leafIndex, slot_created: slotCreated } = row;
    return { ...fixed, tree: encode32(row.tree_key), leafIndex, seq, slotCreated };
  }
  return {
    ...fixed,
    leafIndex: row.leaf_index,
    seq,
    slotCreated: row.slot_created,
    proveByIndex: row.queued === 1,
    merkleContext: merkleContext(row),
  };
}

/** Where an account's leaf is, or will be. */
export function merkleContext(row: TreeOfAccount): object {
  const { next_tree: next } = row;
  return {
    ...treeContext(row.tree_type, row.tree_key, row.tree_queue),
    nextTreeContext: next === null ? null : treeContext(row.next_type ?? row.tree_type, next, row.next_queue),
  };
}

type TreeOfAccount = Pick<
  FullAccount,
  'tree_key' | 'tree_type' | 'tree_queue' | 'next_tree' | 'next_type' | 'next_queue'
>;

export function treeContext(treeType: number, tree: Uint8Array, queue: Uint8Array | null): object {
  return { treeType, tree: encode32(tree), queue: keyOrNull(queue) ?? NO_KEY, cpiContext: null };
}

function dataRecord({ discriminator, data, data_hash: hash }: RecordedAccount, slice: DataSlice | null): object | null {
  if (discriminator === null || data === null || hash === null) return null;
  const shown = slice === null ? data : data.subarray(slice.offset, slice.offset + slice.length);
  return { discriminator: discriminatorJson(discriminator), data: base64(shown), dataHash: encode32(hash) };
}

const keyOrNull = (key: Uint8Array | null) => (key === null ? null : encode32(key));

const base64 = (bytes: Uint8Array) => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('base64');
