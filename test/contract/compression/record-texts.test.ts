/** The texts of accounts, read as packed rows, are, character for character, those of the records of their columns. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { findAccounts } from '../../../plugins/compression/rpc/accounts.ts';
import {
  accountRecord,
  type RecordRow,
  recordColumns,
  recordTexts,
  recordTrees,
  tokenRecord,
} from '../../../plugins/compression/rpc/records.ts';
import type { CompressionDb } from '../../../plugins/compression/store/tables.ts';
import { stringify } from '../../../src/lib/json.ts';
import { keysQuery, packedRows } from '../../../src/ports/raw-query.ts';
import { accountRow, createCompressionTables, insertRows, keyOf, treeRow } from '../../helpers/compression-rows.ts';
import { eachStore } from '../../helpers/store.ts';

const bytes = (length: number) => fc.uint8Array({ minLength: length, maxLength: length });
const orNull = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: null });
const u64 = fc.oneof(
  fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
  fc.bigInt({ min: 2n ** 53n - 2n, max: 2n ** 53n + 2n }),
  fc.bigInt({ min: 0n, max: 1_000n }),
);
const u64Buffer = u64.map((value) => {
  const buffer = Buffer.alloc(8);
  buffer.writeBigUInt64BE(value);
  return buffer;
});

const accounts = fc.record({
  tree: fc.integer({ min: 1, max: 3 }),
  leaf_index: fc.nat(2 ** 32 - 1),
  owner: fc.constantFrom(keyOf(10), keyOf(11)),
  lamports: u64Buffer,
  address: orNull(bytes(32)),
  content: orNull(fc.record({ discriminator: u64Buffer, data: fc.uint8Array(), data_hash: bytes(32) })),
  seq: orNull(fc.nat()),
  queued: fc.constantFrom(0, 1),
});
const tokens = fc.record({
  mint: fc.constantFrom(keyOf(20), keyOf(21)),
  owner: fc.constantFrom(keyOf(10), keyOf(11)),
  amount: u64Buffer,
  delegate: orNull(bytes(32)),
  state: fc.constantFrom(0, 1),
  tlv: orNull(fc.uint8Array()),
});
const slices = orNull(fc.record({ offset: fc.nat(40), length: fc.nat(40) }));

eachStore('texts of listed accounts', (engine) => {
  test('are those of the records', async (t) => {
    const store = await engine.store(t);
    await createCompressionTables(store);
    // The successor of the second is the third; that of the first is unknown.
    const trees = [
      treeRow(1, { next_tree: keyOf(99) }),
      treeRow(2, { type: 3, next_tree: keyOf(1, 3) }),
      treeRow(3, { type: 3, queue: null }),
    ];
    const made = fc.sample(accounts, 300);
    const rows = made.map(({ content, ...account }, i) =>
      accountRow(keyOf(30, i), {
        ...account,
        ...(content ?? { discriminator: null, data: null, data_hash: null }),
        slot_created: i,
      }),
    );
    await insertRows(store, { compression_trees: trees, compression_accounts: rows });
    const db = store.read as CompressionDb;
    const hashes = rows.map(({ hash }) => hash);
    const full = await findAccounts(db, hashes);
    for (const version of [1, 2] as const) {
      const packed = packedRows<RecordRow>(store, recordColumns(version));
      const select = keysQuery<{ readonly rows: string | null }>(
        store,
        (isIn) =>
          `SELECT ${packed.sql()} AS rows FROM compression_accounts a ${recordTrees(version)} WHERE a.hash ${isIn}`,
      );
      const [none] = await select(db, []);
      assert.deepEqual(packed.read(none!.rows), []);
      const [some] = await select(db, hashes);
      const list = packed.read(some!.rows);
      assert.equal(list.length, hashes.length);
      for (const slice of fc.sample(slices, 10)) {
        const texts = recordTexts(version, slice);
        for (const row of list)
          assert.equal(texts.account(row), stringify(accountRecord(full.get(row.hash)!, version, slice)));
      }
    }
    const texts = recordTexts(2);
    fc.assert(fc.property(tokens, (row) => assert.equal(texts.tokens(row), stringify(tokenRecord(row)))));
  });
});
