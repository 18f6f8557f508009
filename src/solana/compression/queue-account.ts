import { createByteReader } from '../byte-reader.ts';

/** A part of a queue that is full and not in the tree yet: one proof will bring it there. */
export interface FullPart {
  /** Place of its first value in the queue, counted from 0 over the queue's whole life. */
  readonly from: number;
  readonly size: number;
  /** Which of the account's stores of chains, and which chain in it. */
  readonly store: number;
  readonly place: number;
}

/** What the account of a queue tells beside its values. V2 state trees hold their queue of nullifiers, V2 address trees that of addresses. */
export interface QueueHeader {
  /** Values that were ever put in. */
  readonly nextIndex: number;
  /** Ascending by `from`. */
  readonly fullParts: readonly FullPart[];
  /** Where the stores of chains lie in the account, and how long they are together. */
  readonly storesOffset: number;
  readonly storesBytes: number;
  /** Bytes of one store: u64 length, u64 capacity, then 32 bytes for each chain. */
  readonly storeBytes: number;
}

/** So many bytes from the start of an account are enough. */
export const QUEUE_HEADER_BYTES = 552;

const TREE = Buffer.from('BatchMta');
const OUTPUT_QUEUE = Buffer.from('queueacc');
const TREE_BATCHES = 264;
const TREE_ROOTS = 704;
const TREE_ROOT_CAPACITY = 252;
const OUTPUT_BATCHES = 232;
const BATCH_BYTES = 96;
const VECTOR_HEAD = 16;
const HASH_BYTES = 32;
/** More than any deployment has; a header that says more is no header. */
const MOST_BATCHES = 8;
const MOST_VALUES = 2 ** 20;

/** Reads the header of an output queue, or of the queue that a V2 tree is itself; null when it is neither. */
export function readQueueHeader(data: Uint8Array): QueueHeader | null {
  if (data.length < QUEUE_HEADER_BYTES) return null;
  const kind = Buffer.from(data.buffer, data.byteOffset, 8);
  const isTree = kind.equals(TREE);
  if (!isTree && !kind.equals(OUTPUT_QUEUE)) return null;
  const at = isTree ? TREE_BATCHES : OUTPUT_BATCHES;
  const reader = createByteReader(data, at);
  const number = () => Number(reader.u64());
  const [count, batchSize, partSize, bloomBits] = [number(), number(), number(), number()];
  number();
  number();
  const nextIndex = number();
  if (count < 1 || count > MOST_BATCHES || batchSize < 1 || batchSize > MOST_VALUES) return null;
  if (partSize < 1 || batchSize % partSize !== 0 || at + 56 + count * BATCH_BYTES > data.length) return null;
  const storeBytes = VECTOR_HEAD + HASH_BYTES * (batchSize / partSize);
  // A tree has its roots and filters before the chains, an output queue its values.
  const storesOffset = isTree
    ? TREE_ROOTS + HASH_BYTES * createByteReader(data, TREE_ROOT_CAPACITY).u32() + count * (bloomBits / 8)
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
 * Batches take turns, so the first place of what a batch holds follows from how many values there were. The start index of its record
 * does not tell: it stays what it was when the batch of an input queue is used again, and that of addresses counts from 1.
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

/** The chain of a full part, from the bytes at `storesOffset`; null when they do not hold it. */
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
