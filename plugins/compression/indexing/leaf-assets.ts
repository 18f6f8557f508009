import { equalBytes } from '../../../src/lib/bytes.ts';
import type { ChangeEvent, LeafSchema } from '../../../src/solana/concurrent/decode-concurrent.ts';
import { assetId } from '../../../src/solana/concurrent/tree.ts';
import type { RowBook } from '../store/row-book.ts';
import { type AssetRow, LEAF_STATE, type Tables, type TreeRow } from '../store/tables.ts';
import type { TreeBook } from '../trees/tree-book.ts';

/** A change of a leaf, and what the instruction of Bubblegum says of its asset. */
export interface LeafChangeRecord {
  readonly tree: Uint8Array;
  readonly seq: number;
  readonly leafIndex: number;
  readonly leaf: Uint8Array;
  /** 64 bytes. */
  readonly signature: Uint8Array;
  readonly asset: LeafSchema | null;
  readonly operation: string | null;
  readonly metadata: Uint8Array | null;
}

export function leafChange(event: ChangeEvent, signature: Uint8Array): LeafChangeRecord {
  const { tree, seq, leafIndex, path, asset, operation, metadata } = event;
  return { tree, seq, leafIndex, leaf: path[0] as Uint8Array, signature, asset, operation, metadata };
}

export interface AssetBooks {
  readonly trees: TreeBook;
  readonly assets: RowBook<AssetRow>;
  readonly metadata: RowBook<Tables['compression_metadata']>;
  readonly changes: RowBook<Tables['compression_changes']>;
}

/**
 * Writes what the changes of a block say of assets. The change with the highest sequence number decides, so the rows do not depend on the
 * order of blocks, nor on whether the tree could apply the changes: whether an asset may be served is decided when it is read.
 */
export async function applyLeafChanges(
  books: AssetBooks,
  slot: number,
  records: readonly LeafChangeRecord[],
): Promise<void> {
  const known = records.flatMap((record) => {
    const tree = books.trees.find(record.tree);
    const id = tree === null ? null : idOf(record);
    return tree === null ? [] : [{ record, tree, id }];
  });
  if (known.length === 0) return;
  await books.assets.load(known.flatMap(({ id }) => (id === null ? [] : [[id]])));
  const hashes = records.flatMap(({ asset, metadata }) =>
    asset === null || metadata === null ? [] : [asset.dataHash],
  );
  await books.metadata.load(hashes.map((hash) => [hash]));
  for (const { record, tree, id } of known) {
    const { seq, leafIndex, signature, operation, asset, metadata } = record;
    books.changes.put({
      ...{ tree: tree.id, seq, leaf_index: leafIndex, slot, operation: operation ?? '' },
      signature: Uint8Array.from(signature),
    });
    if (asset !== null && metadata !== null && books.metadata.get(asset.dataHash) === null)
      books.metadata.put({ hash: Uint8Array.from(asset.dataHash), body: Uint8Array.from(metadata) });
    if (id !== null) putAsset(books, { record, tree, id, slot });
  }
}

/** The asset of a change. Bubblegum numbers its assets like their leaves, so a leaf without one shows whose it was. */
function idOf({ asset, operation, tree, leafIndex }: LeafChangeRecord): Uint8Array | null {
  if (asset !== null) return asset.id;
  return operation === null ? null : assetId(tree, BigInt(leafIndex));
}

interface Put {
  readonly record: LeafChangeRecord;
  readonly tree: TreeRow;
  readonly id: Uint8Array;
  readonly slot: number;
}

function putAsset({ assets }: AssetBooks, { record, tree, id, slot }: Put): void {
  const { asset, seq, leafIndex, leaf } = record;
  const before = assets.get(id);
  // A leaf may claim to be any asset; the claim holds only when Bubblegum derives the id from this tree. A known asset was derived
  // before, and no other tree can have its id.
  if (asset !== null && before?.tree !== tree.id && !equalBytes(assetId(tree.key, asset.nonce), asset.id)) return;
  const isNewest = before === null || seq > before.seq;
  const isNewestLeaf = asset !== null && seq > (before?.leaf_seq ?? 0);
  if (!isNewest && !isNewestLeaf) return;
  const row: AssetRow = {
    ...(before ?? { ...NO_LEAF, id: Uint8Array.from(id), tree: tree.id, leaf_index: leafIndex }),
    ...(isNewest ? { leaf: Uint8Array.from(leaf), seq, slot, state: stateOf(record) } : {}),
    ...(isNewestLeaf ? leafColumns(asset, seq) : {}),
  };
  assets.put(row);
}

const NO_LEAF = {
  ...{ leaf: new Uint8Array(32), seq: 0, slot: 0, state: LEAF_STATE.present, leaf_seq: 0, version: null, owner: null },
  ...{ delegate: null, data_hash: null, creator_hash: null, collection_hash: null, asset_data_hash: null, flags: null },
};

function stateOf({ asset, leaf, operation }: LeafChangeRecord): number {
  if (asset !== null) return LEAF_STATE.present;
  if (leaf.some((byte) => byte !== 0)) return LEAF_STATE.unknown;
  return operation?.startsWith('Burn') === true ? LEAF_STATE.burnt : LEAF_STATE.redeemed;
}

function leafColumns({ version, owner, delegate, dataHash, creatorHash, more }: LeafSchema, seq: number) {
  return {
    ...{ leaf_seq: seq, version, owner: Uint8Array.from(owner), delegate: Uint8Array.from(delegate) },
    ...{ data_hash: Uint8Array.from(dataHash), creator_hash: Uint8Array.from(creatorHash) },
    collection_hash: more === null ? null : Uint8Array.from(more.collectionHash),
    asset_data_hash: more === null ? null : Uint8Array.from(more.assetDataHash),
    flags: more?.flags ?? null,
  };
}
