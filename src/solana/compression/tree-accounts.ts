import { createByteReader } from '../../lib/bytes.ts';
import { TREE_TYPE } from './events.ts';

/** Content of the account of a tree, without its roots. Keys are 32 bytes. */
interface TreeAccount {
  /** `TREE_TYPE`. */
  readonly type: number;
  readonly height: number;
  readonly rootHistoryCapacity: number;
  readonly seq: bigint;
  readonly nextIndex: bigint;
  /** The group of programs that may use the tree. Trees of other groups are foreign. */
  readonly owner: Uint8Array;
  /** Queue of the tree; null for V2 address trees, which are their own queue. */
  readonly queue: Uint8Array | null;
  /** Successor of a full tree. */
  readonly nextTree: Uint8Array | null;
  /** Offset of the root at a sequence number: `rootsOffset + 32 * (seq % rootHistoryCapacity)`. */
  readonly rootsOffset: number;
}

/** Bytes from the start of an account that suffice to read it. */
export const TREE_HEADER_BYTES = 704;

const STATE_V1 = 'ac2bacba1d49db54';
const ADDRESS_V1 = '0ba1af09d4e54949';
const BATCHED_TREE = Buffer.from('BatchMta');
const BATCHED = BATCHED_TREE.toString('hex');
const OUTPUT_QUEUE = Buffer.from('queueacc');
const V1_HEIGHT = 224;
const V1_SEQUENCE = 248;
const V1_ROOT_CAPACITY = 336;
const V1_ROOTS = 1_222_016;
const V2_SEQUENCE = 232;
const V2_ROOTS = 704;
const METADATA_BYTES = 216;

/** First eight bytes of the accounts that are trees. */
export const TREE_DISCRIMINATORS: readonly Uint8Array[] = [STATE_V1, ADDRESS_V1, BATCHED].map((hex) =>
  Uint8Array.from(Buffer.from(hex, 'hex')),
);

/** Offsets of the sequence number (little-endian u64) and of the oldest root in the account of a tree of this type (`TREE_TYPE`). */
export function rootPlaces(type: number): { readonly seqOffset: number; readonly rootsOffset: number } {
  return type === TREE_TYPE.stateV1 || type === TREE_TYPE.addressV1
    ? { seqOffset: V1_SEQUENCE, rootsOffset: V1_ROOTS }
    : { seqOffset: V2_SEQUENCE, rootsOffset: V2_ROOTS };
}

/** Owner, program owner, forester and seven numbers precede the keys of queue and next tree. */
const QUEUE_IN_METADATA = 3 * 32 + 7 * 8;

/** The tree of an output queue, from the start of the queue's account; null for other accounts. */
export function readQueueAccount(data: Uint8Array): Uint8Array | null {
  if (data.length < 8 + METADATA_BYTES || !Buffer.from(data.buffer, data.byteOffset, 8).equals(OUTPUT_QUEUE))
    return null;
  return Uint8Array.from(createByteReader(data, 8 + QUEUE_IN_METADATA).key());
}

/** Reads the header of a tree account by its discriminator; null when it is not a tree of a known kind, or too short. */
export function readTreeAccount(data: Uint8Array): TreeAccount | null {
  if (data.length < TREE_HEADER_BYTES) return null;
  const kind = Buffer.from(data.buffer, data.byteOffset, 8).toString('hex');
  if (kind === STATE_V1) return readV1(data, TREE_TYPE.stateV1);
  if (kind === ADDRESS_V1) return readV1(data, TREE_TYPE.addressV1);
  return kind === BATCHED ? readV2(data) : null;
}

function readV1(data: Uint8Array, type: number): TreeAccount {
  const u64 = (offset: number) => createByteReader(data, offset).u64();
  return {
    type,
    ...readMetadata(data, 8),
    height: Number(u64(V1_HEIGHT)),
    nextIndex: u64(V1_SEQUENCE - 8),
    seq: u64(V1_SEQUENCE),
    rootHistoryCapacity: Number(u64(V1_ROOT_CAPACITY)),
    rootsOffset: V1_ROOTS,
  };
}

function readV2(data: Uint8Array): TreeAccount | null {
  const type = Number(createByteReader(data, 8).u64());
  if (type !== TREE_TYPE.stateV2 && type !== TREE_TYPE.addressV2) return null;
  const reader = createByteReader(data, V2_SEQUENCE);
  const [seq, nextIndex, height, rootHistoryCapacity] = [reader.u64(), reader.u64(), reader.u32(), reader.u32()];
  return { type, seq, nextIndex, height, rootHistoryCapacity, ...readMetadata(data, 16), rootsOffset: V2_ROOTS };
}

function readMetadata(data: Uint8Array, at: number): Pick<TreeAccount, 'owner' | 'queue' | 'nextTree'> {
  const metadata = data.subarray(at, at + METADATA_BYTES);
  const reader = createByteReader(metadata, QUEUE_IN_METADATA);
  return { owner: metadata.subarray(0, 32), queue: keyOrNull(reader.key()), nextTree: keyOrNull(reader.key()) };
}

function keyOrNull(key: Uint8Array): Uint8Array | null {
  return key.some((byte) => byte !== 0) ? key : null;
}

/** A part of a queue that is full and not in the tree yet: one proof will append it. */
interface FullPart {
  /** Index of its first value in the queue, counted from 0 over the queue's lifetime. */
  readonly from: number;
  readonly size: number;
  /** Index of the store of chains in the account, and of the chain in it. */
  readonly store: number;
  readonly place: number;
}

/** Content of the account of a queue, without its values. V2 state trees contain their nullifier queue, V2 address trees their address queue. */
export interface QueueHeader {
  /** Number of values ever queued. */
  readonly nextIndex: number;
  /** Ascending by `from`. */
  readonly fullParts: readonly FullPart[];
  /** Offset of the stores of chains in the account, and their total length. */
  readonly storesOffset: number;
  readonly storesBytes: number;
  /** Bytes of one store: u64 length, u64 capacity, then 32 bytes for each chain. */
  readonly storeBytes: number;
}

/** Bytes from the start of an account that suffice to read it. */
export const QUEUE_HEADER_BYTES = 552;

const TREE_BATCHES = 264;
const TREE_ROOT_CAPACITY = 252;
const OUTPUT_BATCHES = 232;
const BATCH_BYTES = 96;
const VECTOR_HEAD = 16;
const HASH_BYTES = 32;
/** More than any deployment has; a header with more is invalid. */
const MAX_BATCHES = 8;
const MAX_VALUES = 2 ** 20;

/** Reads the header of an output queue, or of the queue inside a V2 tree; null when it is neither. */
export function readQueueHeader(data: Uint8Array): QueueHeader | null {
  if (data.length < QUEUE_HEADER_BYTES) return null;
  const kind = Buffer.from(data.buffer, data.byteOffset, 8);
  const isTree = kind.equals(BATCHED_TREE);
  if (!isTree && !kind.equals(OUTPUT_QUEUE)) return null;
  const at = isTree ? TREE_BATCHES : OUTPUT_BATCHES;
  const reader = createByteReader(data, at);
  const number = () => Number(reader.u64());
  const [count, batchSize, partSize, bloomBits] = [number(), number(), number(), number()];
  number();
  number();
  const nextIndex = number();
  if (count < 1 || count > MAX_BATCHES || batchSize < 1 || batchSize > MAX_VALUES) return null;
  if (partSize < 1 || batchSize % partSize !== 0 || at + 56 + count * BATCH_BYTES > data.length) return null;
  const storeBytes = VECTOR_HEAD + HASH_BYTES * (batchSize / partSize);
  // A tree has its roots and filters before the chains, an output queue its values.
  const storesOffset = isTree
    ? V2_ROOTS + HASH_BYTES * createByteReader(data, TREE_ROOT_CAPACITY).u32() + count * (bloomBits / 8)
    : QUEUE_HEADER_BYTES + count * (VECTOR_HEAD + HASH_BYTES * batchSize);
  const rounds = Array.from({ length: count }, (_, store) => {
    const batch = createByteReader(data, at + 56 + store * BATCH_BYTES + 16);
    const [full, inserted] = [Number(batch.u64()), Number(batch.u64())];
    return { store, full, inserted, from: roundStart(store, count, batchSize, nextIndex) };
  });
  const fullParts = rounds.flatMap(({ store, full, inserted, from }) =>
    from === null ? [] : partsOf(store, from, partSize, inserted, Math.min(full, batchSize / partSize)),
  );
  fullParts.sort((a, b) => a.from - b.from);
  return { nextIndex, fullParts, storesOffset, storeBytes, storesBytes: count * storeBytes };
}

/**
 * Batches take turns, so the first index of a batch follows from the number of queued values. The start index in its record
 * is not usable: it is not updated when the batch of an input queue is reused, and that of addresses counts from 1.
 */
function roundStart(store: number, count: number, batchSize: number, nextIndex: number): number | null {
  const first = store * batchSize;
  if (nextIndex <= first) return null;
  const round = count * batchSize;
  return first + Math.floor((nextIndex - 1 - first) / round) * round;
}

function partsOf(store: number, from: number, size: number, inserted: number, full: number): FullPart[] {
  return Array.from({ length: Math.max(0, full - inserted) }, (_, i) => {
    const place = inserted + i;
    return { from: from + place * size, size, store, place };
  });
}

/** The chain of a full part, from the bytes at `storesOffset`; null when they do not contain it. */
export function chainOfPart(
  stores: Uint8Array,
  { storeBytes }: QueueHeader,
  { store, place }: FullPart,
): Uint8Array | null {
  const at = store * storeBytes;
  if (stores.length < at + storeBytes) return null;
  const length = Number(createByteReader(stores, at).u64());
  if (place >= length) return null;
  const from = at + VECTOR_HEAD + place * HASH_BYTES;
  return Uint8Array.from(stores.subarray(from, from + HASH_BYTES));
}
