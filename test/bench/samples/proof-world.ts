/** A store with one V1 state tree, for the rows about proofs. */
import { type CompressionDb, u64Bytes } from '../../../plugins/compression/store/tables.ts';
import { createHashing } from '../../../plugins/compression/trees/hashing.ts';
import { pageId, writePages } from '../../../plugins/compression/trees/page-book.ts';
import type { Store } from '../../../src/ports/store.ts';
import {
  accountRow,
  createCompressionTables,
  keyOf,
  setHead,
  signatureOf,
  treeRow,
} from '../../helpers/compression-rows.ts';
import { createSfc32 } from '../../helpers/sfc32.ts';

export const PROOF_TREE_HEIGHT = 26;
export const PROOF_HEAD = 312_345_678;
const TREE = 1;
const LEAVES_PER_PIECE = 8_192;
/** Accounts of one owner, by leaf index. */
export const OWNED = 32;
/** Of each account. */
const DATA_BYTES = 96;

/** Owner of the account at a leaf index. */
export const ownerOf = (leafIndex: number): Uint8Array => keyOf(10, Math.floor(leafIndex / OWNED));

export interface ProofWorld {
  readonly root: Buffer;
  /** By index. */
  readonly leaves: readonly Buffer[];
  /** By key. */
  readonly pages: ReadonlyMap<number, Uint8Array>;
}

/** Random leaves, which anyone with the seed can draw again. */
export function worldLeaves(count: number, seed: number): readonly Buffer[] {
  const random = createSfc32(seed);
  return Array.from({ length: count }, () => {
    const hash = Buffer.alloc(32);
    random.fill(hash);
    // Below the prime.
    hash[0] = 0;
    return hash;
  });
}

/** Writes tables, tree, pages and accounts as the indexer leaves them. */
export async function plantWorld(
  store: Store,
  count: number,
  seed: number,
  { withAccounts = true } = {},
): Promise<ProofWorld> {
  await createCompressionTables(store);
  const hashing = createHashing({ add: () => undefined });
  const leaves = worldLeaves(count, seed);
  const pages = new Map<number, Uint8Array>();
  let root: Uint8Array = new Uint8Array(32);
  for (let from = 0; from < count; from += LEAVES_PER_PIECE) {
    const changes = leaves.slice(from, from + LEAVES_PER_PIECE).map((hash, i) => ({ index: from + i, hash }));
    const [updated] = hashing.update([
      { height: PROOF_TREE_HEIGHT, page: (key) => pages.get(key) ?? null, leaves: changes },
    ]);
    for (const [key, bytes] of updated!.pages) pages.set(key, bytes);
    root = updated!.root;
    if (withAccounts) await store.write((tx) => insertAccounts(tx, changes));
  }
  const all = [...pages].map(([key, nodes]) => ({ id: pageId(TREE, key), nodes }));
  for (let from = 0; from < all.length; from += LEAVES_PER_PIECE)
    await store.write((tx) => writePages(tx, all.slice(from, from + LEAVES_PER_PIECE)));
  await store.write(async (tx) => {
    const row = treeRow(TREE, { root: Buffer.from(root), seq: count, next_index: count });
    await (tx.db as CompressionDb).insertInto('compression_trees').values(row).execute();
  });
  await setHead(store, PROOF_HEAD);
  return { root: Buffer.from(root), leaves, pages };
}

type Tx = Parameters<Parameters<Store['write']>[0]>[0];

async function insertAccounts(tx: Tx, changes: readonly { readonly index: number; readonly hash: Buffer }[]) {
  const data = { discriminator: Buffer.alloc(8, 7), data: Buffer.alloc(DATA_BYTES, 8), data_hash: keyOf(11) };
  const shared = { ...data, lamports: u64Bytes(1_000n), created_by: signatureOf(1) };
  const rows = changes.map(({ index, hash }) =>
    accountRow(hash, {
      ...shared,
      owner: ownerOf(index),
      address: keyOf(12, index),
      leaf_index: index,
      seq: index + 1,
    }),
  );
  const columns = Object.keys(rows[0]!) as (keyof (typeof rows)[0])[];
  await tx.insertMany(
    'compression_accounts',
    columns,
    rows.map((row) => columns.map((column) => row[column])),
  );
}
