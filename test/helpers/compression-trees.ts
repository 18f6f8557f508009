/** Merkle trees in the store, as the indexer leaves them, and an independent way to check proofs of them. */
import { poseidon2 } from 'poseidon-lite';
import type { CompressionDb, TreeRow } from '../../plugins/compression/store/tables.ts';
import { createHashing, hashIndexedLeaves } from '../../plugins/compression/trees/hashing.ts';
import { pageId, readTreePages, writePages } from '../../plugins/compression/trees/page-book.ts';
import { decode32 } from '../../src/lib/base58.ts';
import type { Store } from '../../src/ports/store.ts';
import { pathPages } from '../../src/solana/merkle/path.ts';
import type { LeafChange } from '../../src/solana/merkle/update-trees.ts';

/** One hasher for the tests of a process. */
const hashing = createHashing({ add: () => undefined });

/** Big-endian. */
export const numberOf = (bytes: Uint8Array): bigint => BigInt(`0x${Buffer.from(bytes).toString('hex')}`);
export const bytesOf = (value: bigint): Uint8Array => Buffer.from(value.toString(16).padStart(64, '0'), 'hex');

/** A field element that depends on a number; never zero. */
export const leafHash = (number: number): Uint8Array =>
  bytesOf((BigInt(number) + 1n) * 0x1234567890abcdef1234567n ** 2n);

/** Changes leaves of a tree, in its row and its pages. Inserts the row when it is not there. Returns the row as it is then. */
export async function growTree(store: Store, tree: TreeRow, leaves: readonly LeafChange[]): Promise<TreeRow> {
  return await store.write(async (tx) => {
    const db = tx.db as CompressionDb;
    const ids = new Set(
      leaves.flatMap(({ index }) => pathPages(tree.height, index).map((key) => pageId(tree.id, key))),
    );
    const stored = await readTreePages(db, [...ids]);
    const page = (key: number) => (stored.get(pageId(tree.id, key)) as Uint8Array | undefined) ?? null;
    const [updated] = hashing.update([{ height: tree.height, page, leaves }]);
    await writePages(
      tx,
      [...updated!.pages].map(([key, nodes]) => ({ id: pageId(tree.id, key), nodes })),
    );
    const row = { ...tree, root: Buffer.from(updated!.root) };
    await db.deleteFrom('compression_trees').where('id', '=', tree.id).execute();
    await db.insertInto('compression_trees').values(row).execute();
    return row;
  });
}

/** An address tree with these values and the two ends that every one has. */
export async function growAddressTree(store: Store, tree: TreeRow, values: readonly bigint[]): Promise<TreeRow> {
  const highest = 2n ** 248n - 1n;
  // Leaf 0 is the lowest; V1 trees keep the highest as leaf 1, V2 trees nowhere.
  const leaves = [0n, ...(tree.type === 2 ? [highest] : []), ...values];
  const ordered = leaves.map((value, index) => ({ value, index })).sort((a, b) => (a.value < b.value ? -1 : 1));
  const rows = leaves.map((value) => {
    const next = ordered[ordered.findIndex((leaf) => leaf.value === value) + 1];
    const [nextIndex, nextValue] = value === highest ? [0, 0n] : [next?.index ?? 0, next?.value ?? highest];
    return { value: bytesOf(value), next_index: nextIndex, next_value: bytesOf(nextValue) };
  });
  await store.write(async (tx) => {
    const columns = ['tree', 'leaf_index', 'value', 'next_index', 'next_value', 'seq'];
    const list = rows.map(({ value, next_index, next_value }, i) => [tree.id, i, value, next_index, next_value, 1]);
    await tx.insertMany('compression_indexed_leaves', columns, list);
  });
  const hashes = hashIndexedLeaves(hashing.poseidon, tree.type, rows);
  return await growTree(
    store,
    { ...tree, next_index: rows.length },
    hashes.map((hash, index) => ({ index, hash: hash.slice() })),
  );
}

/** The root that a proof leads to, by another library than the one that made it. */
export function rootOf(leaf: bigint, leafIndex: number, proof: readonly string[]): bigint {
  let node = leaf;
  let index = leafIndex;
  for (const text of proof) {
    const sibling = numberOf(decode32(text)!);
    node = index % 2 === 0 ? poseidon2([node, sibling]) : poseidon2([sibling, node]);
    index = Math.floor(index / 2);
  }
  return node;
}
