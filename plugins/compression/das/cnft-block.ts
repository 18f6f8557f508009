import { encode64 } from '../../../src/lib/base58.ts';
import { type ChainBlock, messageOf } from '../../../src/plugin/plugin.ts';
import type { KeyTable, NormalTransaction } from '../../../src/ports/block.ts';
import {
  type ConcurrentDecoded,
  type ConcurrentEvent,
  decodeConcurrent,
} from '../../../src/solana/concurrent/decode-concurrent.ts';
import { type ConcurrentIds, createConcurrentFinder, createKeccakPairs } from '../../../src/solana/concurrent/tree.ts';
import { HASH_BYTES, zeroHashes } from '../../../src/solana/merkle/path.ts';
import { type LeafChange, type UpdatedTree, updateTrees } from '../../../src/solana/merkle/update-trees.ts';
import type { Tables } from '../store/tables.ts';
import type { NewTree } from '../trees/tree-update.ts';

/** What a block means to concurrent trees. */
export interface CnftBlock {
  readonly slot: number;
  /** In order of execution. */
  readonly steps: readonly { readonly key: Uint8Array; readonly step: LeafStep }[];
  /** Every tree that a change names, as the change shows it. */
  readonly trees: readonly NewTree[];
  /** Trees that can no longer be followed, and why. */
  readonly suspects: readonly { readonly key: Uint8Array; readonly reason: string }[];
  /** What could not be read. */
  readonly faults: readonly { readonly signature: string; readonly reason: string }[];
}

/** Reads a block; null when nothing in it concerns the trees that are wanted. Never throws. */
export function createCnftDecoder(isWanted: (tree: Uint8Array) => boolean): (block: ChainBlock) => CnftBlock | null {
  const findPrograms = createConcurrentFinder();
  return ({ slot, keys, transactions }) => {
    const ids = findPrograms(keys);
    if (ids.length === 0) return null;
    const found = { steps: [], trees: [], suspects: [], faults: [] } as Mutable<Omit<CnftBlock, 'slot'>>;
    for (const transaction of transactions) {
      const { events, faults } = readOne(transaction, keys, ids);
      for (const event of events) if (isWanted(event.tree)) addEvent(found, event, slot);
      for (const { tree, reason } of faults) {
        if (tree === null || !isWanted(tree)) continue;
        found.suspects.push({ key: tree, reason: 'decode' });
        found.faults.push({ signature: encode64(transaction.signatures[0] ?? new Uint8Array(64)), reason });
      }
    }
    return found.trees.length + found.suspects.length === 0 ? null : { slot, ...found };
  };
}

function readOne(transaction: NormalTransaction, keys: KeyTable, ids: ConcurrentIds): ConcurrentDecoded {
  try {
    return decodeConcurrent(transaction, keys, ids);
  } catch (error) {
    // The chain goes on, and every tree that the transaction names is under suspicion.
    const reason = messageOf(error);
    return { events: [], faults: Array.from(transaction.keys, (id) => ({ reason, tree: keys.bytes(id) })) };
  }
}

type Mutable<T> = { [Name in keyof T]: T[Name] extends readonly (infer Item)[] ? Item[] : T[Name] };

function addEvent(found: Mutable<Omit<CnftBlock, 'slot'>>, event: ConcurrentEvent, slot: number): void {
  const key = event.tree;
  if (event.kind === 'close') {
    found.suspects.push({ key, reason: 'closed' });
    return;
  }
  const { height, seq, leafIndex, path, root, asset } = event;
  found.trees.push({ key, type: CONCURRENT_TREE, queue: null, height, rootCapacity: null, nextTree: null });
  if (event.kind === 'prepared') found.suspects.push({ key, reason: 'prepared' });
  // An empty tree is what every tree begins as.
  if (event.kind !== 'change') return;
  const leaf = path[0] as Uint8Array;
  found.steps.push({
    key,
    step: { seq, slot, leafIndex, leaf, root, asset: asset === null ? null : { id: asset.id, nonce: asset.nonce } },
  });
}

/** One change of a concurrent tree. Steps of a tree count up without holes, from 1. */
export interface LeafStep {
  readonly seq: number;
  readonly slot: number;
  readonly leafIndex: number;
  /** 32 bytes, as all others. */
  readonly leaf: Uint8Array;
  /** Root of the tree after it. */
  readonly root: Uint8Array;
  /** The asset that the leaf claims to be. */
  readonly asset: { readonly id: Uint8Array; readonly nonce: bigint } | null;
}

type PendingRow = Tables['compression_pending'];

/** What waits of such a tree has this kind. */
export const STEP_KIND = 'concurrent';

export function pendingStep(tree: number, { seq, slot, leafIndex, leaf, root, asset }: LeafStep): PendingRow {
  const body = {
    leafIndex,
    leaf: base64(leaf),
    root: base64(root),
    ...(asset === null ? {} : { asset: base64(asset.id), nonce: String(asset.nonce) }),
  };
  return { tree, seq, kind: STEP_KIND, slot, body: JSON.stringify(body) };
}

export function stepOf({ seq, slot, body }: PendingRow): LeafStep {
  const { leafIndex, leaf, root, asset, nonce } = JSON.parse(body) as {
    readonly leafIndex: number;
    readonly leaf: string;
    readonly root: string;
    readonly asset?: string;
    readonly nonce?: string;
  };
  return {
    ...{ seq, slot, leafIndex, leaf: bytes(leaf), root: bytes(root) },
    asset: asset === undefined || nonce === undefined ? null : { id: bytes(asset), nonce: BigInt(nonce) },
  };
}

const base64 = (value: Uint8Array): string => Buffer.from(value).toString('base64');
const bytes = (text: string): Uint8Array => new Uint8Array(Buffer.from(text, 'base64'));

/** Type of concurrent trees in the table of trees, behind the types of the Light programs. */
export const CONCURRENT_TREE = 5;
const MOST_LEVELS = 30;

/** How such trees hash. */
export interface ConcurrentHashing {
  /** Hashes of empty subtrees up to the highest tree, one after the other. */
  readonly zeros: Uint8Array;
  emptyRoot(height: number): Uint8Array;
  /** Sets leaves in order. Of the page reader see `updateTrees`. */
  update(height: number, leaves: readonly LeafChange[], page: (key: number) => Uint8Array | null): UpdatedTree;
}

export function createConcurrentHashing(): ConcurrentHashing {
  const keccak = createKeccakPairs();
  let zeros: Uint8Array | null = null;
  const use = () => {
    zeros ??= zeroHashes(keccak, MOST_LEVELS);
    return zeros;
  };
  return {
    get zeros() {
      return use();
    },
    emptyRoot: (height) => use().slice(height * HASH_BYTES, (height + 1) * HASH_BYTES),
    update(height, leaves, page) {
      const [updated] = updateTrees(keccak, use(), [{ height, page, leaves }]).trees;
      if (updated === undefined) throw new Error('a tree was updated and did not come back');
      return updated;
    },
  };
}
