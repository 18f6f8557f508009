import { equalBytes } from '../../lib/equal-bytes.ts';
import type { KeyTable, NormalTransaction } from '../../ports/block.ts';
import { type ByteReader, createByteReader, LayoutError } from '../byte-reader.ts';
import {
  type BatchEvent,
  type CompressionEvent,
  type DecodeFault,
  type IndexedEvent,
  type IndexedLeaf,
  keyAt,
  type NullifyEvent,
  OUTPUT_BYTES,
  readOutput,
  TREE_TYPE,
  type TransactionEvent,
} from './events.ts';
import { type InstructionGroup, instructionGroups, keysOf, type ProgramIds, type Step } from './programs.ts';
import { findPatterns, readV2Event, type StepClass, treesOfInsert } from './v2-event.ts';

interface Decoded {
  /** In order of execution. */
  readonly events: readonly CompressionEvent[];
  readonly faults: readonly DecodeFault[];
}

const LEAST_DATA = 12;
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
  if (program < 0 || data.length < LEAST_DATA) return 'other';
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
        ...{ account, tree, treeOrQueue: tree, treeType: TREE_TYPE.stateV1, seq: counter.seq - 1n },
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
