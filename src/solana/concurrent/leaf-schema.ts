import { keccak_256 } from '@noble/hashes/sha3.js';
import { type ByteReader, createByteReader, LayoutError } from '../byte-reader.ts';

/** What a leaf of a Bubblegum tree stands for. Keys and hashes are 32 bytes. */
export interface LeafSchema {
  readonly version: 1 | 2;
  readonly id: Uint8Array;
  readonly owner: Uint8Array;
  readonly delegate: Uint8Array;
  readonly nonce: bigint;
  readonly dataHash: Uint8Array;
  readonly creatorHash: Uint8Array;
  /** Version 2 only. */
  readonly more: {
    readonly collectionHash: Uint8Array;
    readonly assetDataHash: Uint8Array;
    readonly flags: number;
  } | null;
}

const LEAF_EVENT = 1;

/**
 * Reads Bubblegum's event from application data; null when it is of another program, for anyone may write there. Only a schema whose
 * `hashLeaf` is the leaf of a tree is one. Errors: LayoutError.
 */
export function readLeafEvent(data: Uint8Array): LeafSchema | null {
  if (data[0] !== LEAF_EVENT) return null;
  // Kind and version of the event; what matters is the version of the schema.
  const reader = createByteReader(data, 2);
  const variant = reader.u8();
  if (variant > 1) throw new LayoutError(`unknown leaf schema ${variant}`, 2);
  const schema = readSchema(reader, variant === 1 ? 2 : 1);
  reader.key();
  if (reader.left > 0) throw new LayoutError(`${reader.left} bytes are left`, reader.offset);
  return schema;
}

function readSchema(reader: ByteReader, version: 1 | 2): LeafSchema {
  return {
    version,
    id: reader.key(),
    owner: reader.key(),
    delegate: reader.key(),
    nonce: reader.u64(),
    dataHash: reader.key(),
    creatorHash: reader.key(),
    more: version === 1 ? null : { collectionHash: reader.key(), assetDataHash: reader.key(), flags: reader.u8() },
  };
}

/** The leaf that a schema makes. */
export function hashLeaf({ version, nonce, more, ...schema }: LeafSchema): Uint8Array {
  const number = new Uint8Array(8);
  new DataView(number.buffer).setBigUint64(0, nonce, true);
  const hash = keccak_256.create();
  hash.update(Uint8Array.of(version));
  for (const part of [schema.id, schema.owner, schema.delegate, number, schema.dataHash, schema.creatorHash])
    hash.update(part);
  if (more !== null) hash.update(more.collectionHash).update(more.assetDataHash).update(Uint8Array.of(more.flags));
  return hash.digest();
}
