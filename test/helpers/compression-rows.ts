/** Rows of compressed accounts as tests want them, without blocks that would make them. */
import {
  type CompressedAccountRow,
  type CompressionDb,
  migrations,
  type TokenAccountRow,
  type TreeRow,
  u64Bytes,
} from '../../plugins/compression/store/tables.ts';
import type { Store } from '../../src/ports/store.ts';
import { migrate } from '../../src/store/migrate.ts';

/** 32 bytes that tell which test key they are. */
export const keyOf = (kind: number, number = 0): Uint8Array => {
  const bytes = Buffer.alloc(32, kind);
  bytes.writeUInt32BE(number, 28);
  return bytes;
};

/** 64 bytes likewise. */
export const signatureOf = (number: number): Uint8Array => Buffer.concat([keyOf(200), keyOf(201, number)]);

export async function createCompressionTables(store: Store): Promise<void> {
  await migrate(store, [{ scope: 'compression', migrations }]);
}

/** A state tree with nothing in it. */
export const treeRow = (id: number, more: Partial<TreeRow> = {}): TreeRow => ({
  id,
  key: keyOf(1, id),
  type: 1,
  queue: keyOf(2, id),
  height: 26,
  root_capacity: 2400,
  next_tree: null,
  seq: 0,
  root: keyOf(3),
  next_index: 0,
  status: 'ok',
  reason: null,
  expected_root: null,
  computed_root: null,
  verified_seq: null,
  verified_slot: null,
  ...more,
});

/** An unspent account without data. */
export const accountRow = (hash: Uint8Array, more: Partial<CompressedAccountRow> = {}): CompressedAccountRow => ({
  hash,
  tree: 1,
  leaf_index: 0,
  owner: keyOf(10),
  lamports: u64Bytes(0n),
  address: null,
  discriminator: null,
  data: null,
  data_hash: null,
  seq: 1,
  slot_created: 5,
  created_by: signatureOf(1),
  spent: 0,
  slot_spent: null,
  spent_by: null,
  queued: 0,
  nullifier: null,
  nullifier_index: null,
  tx_hash: null,
  nullified: 0,
  onchain_pubkey: null,
  ...more,
});

/** Unspent tokens. */
export const tokenRow = (hash: Uint8Array, more: Partial<TokenAccountRow> = {}): TokenAccountRow => ({
  hash,
  owner: keyOf(10),
  mint: keyOf(20),
  delegate: null,
  state: 0,
  amount: u64Bytes(1n),
  tlv: null,
  spent: 0,
  ata_owner: null,
  ...more,
});

/** Inserts into tables of the plugin by name. */
export async function insertRows(store: Store, rows: Readonly<Record<string, readonly object[]>>): Promise<void> {
  await store.write(async (tx) => {
    const db = tx.db as CompressionDb;
    for (const [table, list] of Object.entries(rows))
      for (const row of list)
        await db
          .insertInto(table as 'compression_trees')
          .values(row as TreeRow)
          .execute();
  });
}

/** Says that everything up to this slot is indexed. */
export async function setHead(store: Store, slot: number): Promise<void> {
  await store.write(async (tx) => {
    const db = tx.db as CompressionDb;
    await db.deleteFrom('compression_head').execute();
    await db.insertInto('compression_head').values({ id: 1, slot, block_time: null }).execute();
  });
}
