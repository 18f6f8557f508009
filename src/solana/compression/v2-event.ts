import { equalBytes } from '../../lib/equal-bytes.ts';
import { createByteReader, LayoutError } from '../byte-reader.ts';
import { keyAt, type PackedOutput } from './accounts.ts';
import { type CreatedOutput, type NewAddress, type SpentInput, TREE_TYPE, type TransactionEvent } from './events.ts';
import { type InsertIntoQueues, readInsertIntoQueues, type SequenceRecord } from './insert-into-queues.ts';
import { readSystemInstruction, type SystemInstruction } from './system-instruction.ts';

/** Accounts that stand before the trees and queues in `InsertIntoQueues`. */
const FIRST_TREE = 2;

export interface EventParts {
  readonly insert: { readonly data: Uint8Array; readonly keys: readonly Uint8Array[] };
  readonly system: { readonly data: Uint8Array; readonly keys: readonly Uint8Array[] };
}

/** Puts the two instructions of a pattern together. Errors: LayoutError. */
export function readV2Event({ insert, system }: EventParts): TransactionEvent {
  const queues = readInsertIntoQueues(createByteReader(insert.data));
  const call = readSystemInstruction(system.data);
  const trees = insert.keys.slice(FIRST_TREE);
  const keys = system.keys.slice(call.accountsFrom);
  const { inputs, missing } = spentInputs(queues, call, trees, keys);
  return {
    kind: 'transaction',
    version: 2,
    inputs,
    outputs: createdOutputs(queues, call.outputs, keys),
    newAddresses: newAddresses(queues, trees),
    txHash: queues.txHash,
    missesQueueIndexes: missing,
  };
}

/** The trees that the queue part names, for when the other part cannot be read. Null when this one cannot either. */
export function treesOfInsert(data: Uint8Array): readonly Uint8Array[] | null {
  try {
    const { outputSequences, inputSequences, addressSequences } = readInsertIntoQueues(createByteReader(data));
    return [...outputSequences, ...inputSequences, ...addressSequences].map(({ tree }) => tree);
  } catch {
    return null;
  }
}

/** Queue indexes go to the inputs of trees with queues, in the order in which the system instruction has them. */
function spentInputs(
  queues: InsertIntoQueues,
  call: SystemInstruction,
  trees: readonly Uint8Array[],
  keys: readonly Uint8Array[],
): { readonly inputs: SpentInput[]; readonly missing: Uint8Array[] } {
  const next = counters(queues.inputSequences);
  const indexes = call.inputTrees.flatMap((tree) => {
    const index = keys[tree] === undefined ? null : next(keys[tree]);
    return index === null ? [] : [index];
  });
  const missing: Uint8Array[] = [];
  let given = 0;
  const inputs = queues.inputs.map(({ hash, leafIndex, treeIndex }): SpentInput => {
    const tree = keyAt(trees, treeIndex);
    if (!queues.inputSequences.some((record) => equalBytes(record.tree, tree))) return { hash, queued: null };
    const queueIndex = indexes[given++] ?? null;
    if (queueIndex === null) missing.push(tree);
    return { hash, queued: { tree, leafIndex, queueIndex } };
  });
  return { inputs, missing };
}

function createdOutputs(
  { leaves, leafIndexes, contextOutputs, outputSequences }: InsertIntoQueues,
  own: readonly PackedOutput[],
  keys: readonly Uint8Array[],
): CreatedOutput[] {
  const outputs = [...contextOutputs, ...own];
  if (outputs.length !== leaves.length || leafIndexes.length !== leaves.length)
    throw new LayoutError(`${leaves.length} leaves, ${leafIndexes.length} indexes, ${outputs.length} accounts`);
  const next = counters(outputSequences.filter(({ treeType }) => treeType === TREE_TYPE.stateV1));
  return outputs.map(({ account, treeIndex }, i) => {
    const treeOrQueue = keyAt(keys, treeIndex);
    const record = outputSequences.find(
      ({ tree, queue }) => equalBytes(tree, treeOrQueue) || equalBytes(queue, treeOrQueue),
    );
    return {
      ...{ account, treeOrQueue, hash: (leaves[i] as (typeof leaves)[number]).hash, wallet: null },
      leafIndex: leafIndexes[i] as number,
      tree: record?.tree ?? null,
      treeType: record?.treeType ?? TREE_TYPE.stateV2,
      seq: next(treeOrQueue),
    };
  });
}

/** The addresses of a tree with a queue get its numbers one after the other; other trees have no such record. */
function newAddresses({ addresses, addressSequences }: InsertIntoQueues, trees: readonly Uint8Array[]): NewAddress[] {
  const queued = addressSequences.filter(({ treeType }) => treeType === TREE_TYPE.addressV2);
  const next = counters(queued);
  return addresses.map(({ address, treeIndex }) => {
    const tree = keyAt(trees, treeIndex);
    return { address, tree, queueIndex: next(tree) };
  });
}

const LAST_U64 = 2n ** 64n - 1n;

/** Counts on from the sequence number of each tree; null for a tree without a record, or with one that says none. */
function counters(records: readonly SequenceRecord[]): (tree: Uint8Array) => bigint | null {
  const state = records.map(({ tree, seq }) => ({ tree, seq }));
  return (tree) => {
    const record = state.find((one) => equalBytes(one.tree, tree));
    if (record === undefined || record.seq === LAST_U64) return null;
    record.seq += 1n;
    return record.seq - 1n;
  };
}
