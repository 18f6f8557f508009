import { type ByteReader, createByteReader, equalBytes, LayoutError } from '../../lib/bytes.ts';
import type { KeyTable, NormalTransaction } from '../../ports/block.ts';
import {
  type BatchEvent,
  type CompressionEvent,
  type CreatedOutput,
  type DecodeFault,
  type IndexedEvent,
  type IndexedLeaf,
  keyAt,
  type NewAddress,
  type NullifyEvent,
  OUTPUT_BYTES,
  type PackedOutput,
  readOutput,
  type SpentInput,
  TREE_TYPE,
  type TransactionEvent,
} from './events.ts';
import {
  type InstructionGroup,
  instructionGroups,
  keysOf,
  type ProgramIds,
  readSystemInstruction,
  type Step,
  type SystemInstruction,
} from './instructions.ts';

interface Decoded {
  /** In order of execution. */
  readonly events: readonly CompressionEvent[];
  readonly faults: readonly DecodeFault[];
}

const MIN_DATA = 12;
const INSERT_INTO_QUEUES = '180,143,159,153,35,46,248,163';
const CREATE_CPI_CONTEXT = '233,112,71,66,121,33,178,188';
const TRANSFER2 = 101;
const NOTHING: Decoded = { events: [], faults: [] };

/**
 * The events of a transaction for compressed accounts. Only what programs emit counts, not what is requested. Never throws:
 * an unreadable event is a fault, and the others are still read.
 */
export function decodeCompression(transaction: NormalTransaction, table: KeyTable, ids: ProgramIds): Decoded {
  if (ids.compression < 0 || transaction.error !== null || !transaction.keys.includes(ids.compression)) return NOTHING;
  const events: CompressionEvent[] = [];
  const faults: DecodeFault[] = [];
  for (const group of instructionGroups(transaction)) {
    const queued = readQueued(group, table, ids);
    const found = queued.events.length + queued.faults.length > 0 ? queued : readNoops(group, table, ids);
    events.push(...found.events);
    faults.push(...found.faults);
  }
  return { events, faults };
}

/** V2: values inserted into queues. */
function readQueued(group: InstructionGroup, table: KeyTable, ids: ProgramIds): Decoded {
  const patterns = findPatterns(group.map((step) => classify(step, ids)));
  const part = (at: number) => {
    const { data, accounts } = group[at] as Step;
    return { data, keys: keysOf(accounts, table) };
  };
  return collect(
    patterns,
    ({ insert, system }) => readV2Event({ insert: part(insert), system: part(system) }),
    ({ insert }) => treesOfInsert(part(insert).data) ?? part(insert).keys,
  );
}

/**
 * V1: an event repeated by a noop, one or two calls of Solana's system program after the compression program, or a tree event directly
 * after it.
 */
function readNoops(group: InstructionGroup, table: KeyTable, ids: ProgramIds): Decoded {
  const found = group.flatMap((step, at) => {
    if (step.program !== ids.compression) return [];
    let next = at + 1;
    while (next <= at + 2 && group[next]?.program === ids.solanaSystem) next += 1;
    const noop = group[next];
    if (noop === undefined || noop.program !== ids.noop) return [];
    return [{ step, noop, isTree: next === at + 1 }];
  });
  return collect(
    found,
    ({ noop, isTree }) => (isTree ? readTreeEvent(noop.data) : readV1Event(noop.data)),
    ({ step, noop, isTree }) => {
      const named = isTree ? treeOfEvent(noop.data) : null;
      return named === null ? keysOf(step.accounts, table) : [named];
    },
  );
}

function collect<T>(
  places: readonly T[],
  read: (place: T) => CompressionEvent,
  treesOf: (place: T) => readonly Uint8Array[],
): Decoded {
  const events: CompressionEvent[] = [];
  const faults: DecodeFault[] = [];
  for (const place of places) {
    try {
      events.push(read(place));
    } catch (error) {
      if (!(error instanceof LayoutError)) throw error;
      faults.push({ reason: error.message, trees: treesOf(place) });
    }
  }
  return { events, faults };
}

function classify({ program, accounts, data }: Step, ids: ProgramIds): StepClass {
  if (program < 0 || data.length < MIN_DATA) return 'other';
  if (program === ids.solanaSystem) return 'solana';
  if (program === ids.registry) return 'registry';
  if (program === ids.token) return data[0] === TRANSFER2 ? 'transfer2' : 'other';
  const discriminator = data.subarray(0, 8).join();
  if (program === ids.lightSystem) return discriminator === CREATE_CPI_CONTEXT ? 'other' : 'light';
  const isInsert =
    program === ids.compression &&
    discriminator === INSERT_INTO_QUEUES &&
    accounts.length > 2 &&
    ids.registeredProgram >= 0 &&
    accounts[1] === ids.registeredProgram;
  return isInsert ? 'insert' : 'other';
}

const BATCH_KINDS = { 3: 'append', 4: 'batchNullify', 5: 'addressAppend' } as const;
const LEAF_BYTES = 32 + 8 + 32 + 8;

/** Reads a tree change emitted by the compression program, from the data of a noop. Errors: LayoutError. */
function readTreeEvent(data: Uint8Array): NullifyEvent | IndexedEvent | BatchEvent {
  const reader = createByteReader(data);
  const tag = reader.u8();
  const tree = reader.key();
  if (tag === 1) {
    const leafIndexes = reader.list(reader.count, 8);
    return { kind: 'nullify', tree, leafIndexes, seq: reader.u64() };
  }
  if (tag === 2) {
    const updates = reader.list(() => readUpdate(reader), 2 * (LEAF_BYTES + 32));
    return { kind: 'indexed', tree, updates, seq: reader.u64() };
  }
  const kind = BATCH_KINDS[tag as keyof typeof BATCH_KINDS] as BatchEvent['kind'] | undefined;
  if (kind === undefined) throw new LayoutError(`unknown tree event ${tag}`, 0);
  // Numbers and size of the batch, which the indexes contain as well.
  reader.bytes(3 * 8);
  return {
    kind,
    tree,
    oldNextIndex: reader.count(),
    newNextIndex: reader.count(),
    newRoot: reader.key(),
    rootIndex: reader.u32(),
    seq: reader.u64(),
    outputQueue: reader.option(reader.key),
  };
}

/** The tree of an unreadable event: the second field of every kind. */
function treeOfEvent(data: Uint8Array): Uint8Array | null {
  return data.length >= 33 ? data.subarray(1, 33) : null;
}

function readUpdate(reader: ByteReader): IndexedEvent['updates'][number] {
  return { low: readLeaf(reader), lowHash: reader.key(), high: readLeaf(reader), highHash: reader.key() };
}

function readLeaf(reader: ByteReader): IndexedLeaf {
  return { value: reader.key(), nextIndex: reader.count(), nextValue: reader.key(), index: reader.count() };
}

const NO_HASH = new Uint8Array(32);

/** Reads the event of a V1 call from the data of a noop. Errors: LayoutError. */
function readV1Event(data: Uint8Array): TransactionEvent {
  const reader = createByteReader(data);
  const inputs = reader.list(reader.key, 32);
  const hashes = reader.list(reader.key, 32);
  const outputs = reader.list(() => readOutput(reader), OUTPUT_BYTES);
  const leafIndexes = reader.list(reader.u32, 4);
  const sequences = reader.list(() => ({ tree: reader.key(), seq: reader.u64() }), 40);
  reader.option(reader.u64);
  reader.bool();
  reader.option(reader.u64);
  const keys = reader.list(reader.key, 32);
  reader.option(reader.blob);
  const wallets = readWallets(reader);
  if (hashes.length !== outputs.length || leafIndexes.length !== outputs.length)
    throw new LayoutError(`${hashes.length} hashes, ${leafIndexes.length} indexes, ${outputs.length} accounts`);
  return {
    kind: 'transaction',
    version: 1,
    inputs: inputs.map((hash) => ({ hash, queued: null })),
    outputs: outputs.map(({ account, treeIndex }, i) => {
      const tree = keyAt(keys, treeIndex);
      const counter = sequences.find((one) => equalBytes(one.tree, tree));
      if (counter === undefined) throw new LayoutError('a tree without a sequence number');
      counter.seq += 1n;
      return {
        account,
        tree,
        treeOrQueue: tree,
        treeType: TREE_TYPE.stateV1,
        seq: counter.seq - 1n,
        hash: hashes[i] as Uint8Array,
        leafIndex: leafIndexes[i] as number,
        wallet: wallets.get(i) ?? null,
      };
    }),
    newAddresses: [],
    txHash: NO_HASH,
    missesQueueIndexes: [],
  };
}

/** Newer programs append the wallets of associated token accounts; other trailing data is not ours. */
function readWallets(reader: ByteReader): ReadonlyMap<number, Uint8Array> {
  try {
    const wallets = reader.list(() => [reader.u8(), reader.key()] as const, 33);
    return reader.left > 0 ? new Map() : new Map(wallets);
  } catch (error) {
    if (error instanceof LayoutError) return new Map();
    throw error;
  }
}

/** Accounts before the trees and queues in `InsertIntoQueues`. */
const FIRST_TREE = 2;

interface EventParts {
  readonly insert: { readonly data: Uint8Array; readonly keys: readonly Uint8Array[] };
  readonly system: { readonly data: Uint8Array; readonly keys: readonly Uint8Array[] };
}

/** Combines the two instructions of a pattern. Errors: LayoutError. */
function readV2Event({ insert, system }: EventParts): TransactionEvent {
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
function treesOfInsert(data: Uint8Array): readonly Uint8Array[] | null {
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
      account,
      treeOrQueue,
      hash: (leaves[i] as (typeof leaves)[number]).hash,
      wallet: null,
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
type StepClass = 'solana' | 'light' | 'insert' | 'transfer2' | 'registry' | 'other';

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
function findPatterns(steps: readonly StepClass[]): readonly Pattern[] {
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
    txHash,
    leaves,
    inputs,
    addresses,
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
