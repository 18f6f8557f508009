import { createByteReader } from '../byte-reader.ts';
import { TREE_TYPE } from './events.ts';

/** What the account of a tree tells beside its roots. Keys are 32 bytes. */
export interface TreeAccount {
  /** `TREE_TYPE`. */
  readonly type: number;
  readonly height: number;
  readonly rootHistoryCapacity: number;
  readonly seq: bigint;
  readonly nextIndex: bigint;
  /** Whoever may use the tree: a group of programs. Trees of other groups are foreign. */
  readonly owner: Uint8Array;
  /** Queue of the tree; V2 address trees are their own and have none here. */
  readonly queue: Uint8Array | null;
  /** Where a full tree goes on. */
  readonly nextTree: Uint8Array | null;
  /** Where the root of a sequence number lies in the account: `rootsOffset + 32 * (seq % rootHistoryCapacity)`. */
  readonly rootsOffset: number;
}

/** So many bytes from the start of an account are enough. */
export const TREE_HEADER_BYTES = 704;

const STATE_V1 = 'ac2bacba1d49db54';
const ADDRESS_V1 = '0ba1af09d4e54949';
const BATCHED = Buffer.from('BatchMta').toString('hex');
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

/** Where the account of a tree of this type (`TREE_TYPE`) keeps its sequence number, a little-endian u64, and its oldest root. */
export function rootPlaces(type: number): { readonly seqOffset: number; readonly rootsOffset: number } {
  return type === TREE_TYPE.stateV1 || type === TREE_TYPE.addressV1
    ? { seqOffset: V1_SEQUENCE, rootsOffset: V1_ROOTS }
    : { seqOffset: V2_SEQUENCE, rootsOffset: V2_ROOTS };
}
/** Owner, program owner, forester and seven numbers stand before the keys of queue and next tree. */
const QUEUE_IN_METADATA = 3 * 32 + 7 * 8;

/** The tree of an output queue, by the start of the queue's account; null when it is no such account. */
export function readQueueAccount(data: Uint8Array): Uint8Array | null {
  if (data.length < 8 + METADATA_BYTES || !Buffer.from(data.buffer, data.byteOffset, 8).equals(OUTPUT_QUEUE))
    return null;
  return Uint8Array.from(createByteReader(data, 8 + QUEUE_IN_METADATA).key());
}

/** Reads the header of a tree account by its discriminator; null when it is no tree of a known kind, or too short. */
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
    ...{ type, ...readMetadata(data, 8) },
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
  return { ...{ type, seq, nextIndex, height, rootHistoryCapacity }, ...readMetadata(data, 16), rootsOffset: V2_ROOTS };
}

function readMetadata(data: Uint8Array, at: number): Pick<TreeAccount, 'owner' | 'queue' | 'nextTree'> {
  const metadata = data.subarray(at, at + METADATA_BYTES);
  const reader = createByteReader(metadata, QUEUE_IN_METADATA);
  return { owner: metadata.subarray(0, 32), queue: keyOrNull(reader.key()), nextTree: keyOrNull(reader.key()) };
}

function keyOrNull(key: Uint8Array): Uint8Array | null {
  return key.some((byte) => byte !== 0) ? key : null;
}
