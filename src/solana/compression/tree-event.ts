import { type ByteReader, createByteReader, LayoutError } from '../byte-reader.ts';
import type { BatchEvent, IndexedEvent, IndexedLeaf, NullifyEvent } from './events.ts';

const BATCH_KINDS = { 3: 'append', 4: 'batchNullify', 5: 'addressAppend' } as const;
const LEAF_BYTES = 32 + 8 + 32 + 8;

/** Reads what the compression program tells of a change in a tree, from the data of a noop. Errors: LayoutError. */
export function readTreeEvent(data: Uint8Array): NullifyEvent | IndexedEvent | BatchEvent {
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
  // Numbers and size of the batch, which the indexes tell as well.
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

/** Trees of an event that could not be read: its second field is one in every kind. */
export function treeOfEvent(data: Uint8Array): Uint8Array | null {
  return data.length >= 33 ? data.subarray(1, 33) : null;
}

function readUpdate(reader: ByteReader): IndexedEvent['updates'][number] {
  return { low: readLeaf(reader), lowHash: reader.key(), high: readLeaf(reader), highHash: reader.key() };
}

function readLeaf(reader: ByteReader): IndexedLeaf {
  return { value: reader.key(), nextIndex: reader.count(), nextValue: reader.key(), index: reader.count() };
}
