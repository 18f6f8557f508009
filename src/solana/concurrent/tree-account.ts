import { createByteReader, LayoutError } from '../byte-reader.ts';

/** What the account of a concurrent tree tells. */
export interface ConcurrentTreeAccount {
  readonly height: number;
  /** Changes that the account remembers: `changeOffset` finds them. */
  readonly bufferSize: number;
  readonly authority: Uint8Array;
  readonly creationSlot: bigint;
  /** Sequence number of the newest change. */
  readonly seq: bigint;
  /** How many of the remembered changes are real. */
  readonly changes: number;
  /** Where the root lies that the tree had at a sequence number; null when the account no longer knows it. */
  rootOffset(seq: bigint): number | null;
}

/** So many bytes from the start of an account are enough to read it. */
export const CONCURRENT_HEADER_BYTES = 80;

const TREE_ACCOUNT = 1;
const CHANGES_AT = 80;

/** Reads the start of an account. Errors: LayoutError when it is no tree. */
export function readConcurrentTree(data: Uint8Array): ConcurrentTreeAccount {
  const reader = createByteReader(data);
  if (reader.u8() !== TREE_ACCOUNT || reader.u8() !== 0) throw new LayoutError('no concurrent tree', 0);
  const [bufferSize, height] = [reader.u32(), reader.u32()];
  const authority = reader.key();
  const creationSlot = reader.u64();
  reader.bytes(1 + 5);
  const seq = reader.u64();
  const [active, changes] = [reader.count(), reader.count()];
  if (height < 1 || height > 30 || bufferSize < 1 || active >= bufferSize || changes > bufferSize)
    throw new LayoutError('no concurrent tree');
  // Root, path, index and padding.
  const changeBytes = 32 + 32 * height + 8;
  return {
    ...{ height, bufferSize, authority, creationSlot, seq, changes },
    rootOffset(wanted) {
      const back = seq - wanted;
      if (back < 0n || back >= BigInt(changes)) return null;
      const place = (active - Number(back) + bufferSize) % bufferSize;
      return CHANGES_AT + place * changeBytes;
    },
  };
}
