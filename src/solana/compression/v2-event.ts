import { equalBytes } from '../../lib/equal-bytes.ts';
import { type ByteReader, createByteReader, LayoutError } from '../byte-reader.ts';
import {
  type CreatedOutput,
  keyAt,
  type NewAddress,
  OUTPUT_BYTES,
  type PackedOutput,
  readOutput,
  type SpentInput,
  TREE_TYPE,
  type TransactionEvent,
} from './events.ts';
import { readSystemInstruction, type SystemInstruction } from './system-instruction.ts';

/** Accounts before the trees and queues in `InsertIntoQueues`. */
const FIRST_TREE = 2;

interface EventParts {
  readonly insert: { readonly data: Uint8Array; readonly keys: readonly Uint8Array[] };
  readonly system: { readonly data: Uint8Array; readonly keys: readonly Uint8Array[] };
}

/** Combines the two instructions of a pattern. Errors: LayoutError. */
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

/** The trees named in the queue part, when the other part cannot be read. Null when this part cannot be read either. */
export function treesOfInsert(data: Uint8Array): readonly Uint8Array[] | null {
  try {
    const { outputSequences, inputSequences, addressSequences } = readInsertIntoQueues(createByteReader(data));
    return [...outputSequences, ...inputSequences, ...addressSequences].map(({ tree }) => tree);
  } catch {
    return null;
  }
}

/** Queue indexes belong to the inputs of trees with queues, in the order of the system instruction. */
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

/** New addresses of a tree with a queue get consecutive numbers; other trees have no such record. */
function newAddresses({ addresses, addressSequences }: InsertIntoQueues, trees: readonly Uint8Array[]): NewAddress[] {
  const queued = addressSequences.filter(({ treeType }) => treeType === TREE_TYPE.addressV2);
  const next = counters(queued);
  return addresses.map(({ address, treeIndex }) => {
    const tree = keyAt(trees, treeIndex);
    return { address, tree, queueIndex: next(tree) };
  });
}

const LAST_U64 = 2n ** 64n - 1n;

/** Continues the sequence number of each tree; null for a tree without a record, or with an empty one. */
function counters(records: readonly SequenceRecord[]): (tree: Uint8Array) => bigint | null {
  const state = records.map(({ tree, seq }) => ({ tree, seq }));
  return (tree) => {
    const record = state.find((one) => equalBytes(one.tree, tree));
    if (record === undefined || record.seq === LAST_U64) return null;
    record.seq += 1n;
    return record.seq - 1n;
  };
}

/** Kind of an instruction in the V2 reading. */
export type StepClass = 'solana' | 'light' | 'insert' | 'transfer2' | 'registry' | 'other';

/** Positions in a list of instructions that together form one event. */
interface Pattern {
  readonly insert: number;
  readonly system: number;
  /** The token transfer that caused it, when the registry paid for it. */
  readonly transfer: number | null;
}

/**
 * Finds each `InsertIntoQueues` and the call of the light-system program that executed it: the first one before it and before a call
 * of Solana's system program. Calls of the light-system program before that only prepared a context. In order of execution.
 */
export function findPatterns(steps: readonly StepClass[]): readonly Pattern[] {
  const found: Pattern[] = [];
  for (let at = steps.length - 1; at >= 0; ) {
    if (steps[at] !== 'insert') {
      at -= 1;
      continue;
    }
    const { pattern, end } = walkBack(steps, at);
    if (pattern !== null) found.push(pattern);
    at = end;
  }
  return found.reverse();
}

/** `end` is where the search continues: an insert that ends this pattern starts the next. */
function walkBack(
  steps: readonly StepClass[],
  insert: number,
): { readonly pattern: Pattern | null; readonly end: number } {
  let system = -1;
  let isBeyondSolana = false;
  let transfer = -1;
  let paid: number | null = null;
  let at = insert - 1;
  for (; at >= 0; at -= 1) {
    const step = steps[at];
    if (system >= 0) {
      if (step === 'insert') break;
      if (step === 'transfer2' && transfer < 0) transfer = at;
      if (step === 'registry' && transfer >= 0) paid = transfer;
    } else if (step === 'solana') isBeyondSolana = true;
    else if (step === 'light' && isBeyondSolana) system = at;
    else return { pattern: null, end: at };
  }
  return { pattern: system < 0 ? null : { insert, system, transfer: paid }, end: at };
}

const ANCHOR_BYTES = 12;
const SEQUENCE_BYTES = 80;

interface SequenceRecord {
  readonly tree: Uint8Array;
  readonly queue: Uint8Array;
  readonly treeType: number;
  readonly seq: bigint;
}

/** Arguments of the system program for the compression program. Small indexes refer to the instruction's accounts from the third on. */
interface InsertIntoQueues {
  readonly txHash: Uint8Array;
  readonly leaves: readonly { readonly accountIndex: number; readonly hash: Uint8Array }[];
  readonly inputs: readonly {
    readonly hash: Uint8Array;
    readonly leafIndex: number;
    readonly treeIndex: number;
    readonly queueIndex: number;
  }[];
  readonly addresses: readonly {
    readonly address: Uint8Array;
    readonly treeIndex: number;
    readonly queueIndex: number;
  }[];
  readonly outputSequences: readonly SequenceRecord[];
  readonly inputSequences: readonly SequenceRecord[];
  readonly addressSequences: readonly SequenceRecord[];
  readonly leafIndexes: readonly number[];
  /** Outputs from the CPI context, before those of the system instruction. */
  readonly contextOutputs: readonly PackedOutput[];
}

/** Errors: LayoutError. */
function readInsertIntoQueues(reader: ByteReader): InsertIntoQueues {
  reader.bytes(ANCHOR_BYTES);
  // Whether a program invoked it, a bump, and four counts that the lists repeat.
  reader.bytes(6);
  const txHash = reader.key();
  const leaves = reader.list(() => ({ accountIndex: reader.u8(), hash: reader.key() }), 33, reader.u8());
  const inputs = reader.list(
    () => {
      const hash = reader.key();
      const leafIndex = reader.u32();
      reader.u8();
      return { hash, leafIndex, treeIndex: reader.u8(), queueIndex: reader.u8() };
    },
    39,
    reader.u8(),
  );
  const addresses = reader.list(
    () => ({ address: reader.key(), treeIndex: reader.u8(), queueIndex: reader.u8() }),
    34,
    reader.u8(),
  );
  return {
    ...{ txHash, leaves, inputs, addresses },
    outputSequences: readSequences(reader),
    inputSequences: readSequences(reader),
    addressSequences: readSequences(reader),
    leafIndexes: reader.list(reader.u32, 4, reader.u8()),
    contextOutputs: reader.list(() => readOutput(reader), OUTPUT_BYTES),
  };
}

/** Records without a tree are padding. */
function readSequences(reader: ByteReader): readonly SequenceRecord[] {
  const records = reader.list(
    () => ({ tree: reader.key(), queue: reader.key(), treeType: Number(reader.u64()), seq: reader.u64() }),
    SEQUENCE_BYTES,
    reader.u8(),
  );
  return records.filter(({ tree }) => tree.some((byte) => byte !== 0));
}
