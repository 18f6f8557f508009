import { type ChainBlock, messageOf } from '../../../src/kernel/plugin.ts';
import { encode64 } from '../../../src/lib/base58.ts';
import type { KeyTable, NormalTransaction } from '../../../src/ports/block.ts';
import { type ConcurrentDecoded, decodeConcurrent } from '../../../src/solana/concurrent/decode-concurrent.ts';
import type { ConcurrentEvent } from '../../../src/solana/concurrent/events.ts';
import { type ConcurrentIds, createConcurrentFinder } from '../../../src/solana/concurrent/programs.ts';
import type { NewTree } from '../trees/tree-source.ts';
import { CONCURRENT_TREE } from './concurrent-tree.ts';
import type { LeafStep } from './leaf-step.ts';

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
