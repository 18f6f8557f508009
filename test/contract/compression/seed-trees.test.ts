/** Trees are added once, however many processes start on an empty database concurrently. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { CompressionDb } from '../../../plugins/compression/store/tables.ts';
import { createHashing } from '../../../plugins/compression/trees/hashing.ts';
import { knownTrees, seedTrees } from '../../../plugins/compression/trees/tree-book.ts';
import { createCompressionTables, keyOf } from '../../helpers/compression-rows.ts';
import { eachStore } from '../../helpers/store.ts';

const PROCESSES = 4;

eachStore('trees that are added', (engine) => {
  test('the same trees and others by several processes at once: each exists once, with a unique id', async (t) => {
    const database = await engine.database(t);
    const stores = await Promise.all(Array.from({ length: PROCESSES }, () => database.open()));
    await createCompressionTables(stores[0]!);
    const hashing = createHashing({ add: () => undefined });
    const known = knownTrees([]);
    const [pattern] = known;
    const own = (process: number) => ({ ...pattern!, key: keyOf(100 + process), queue: keyOf(200 + process) });
    await Promise.all(
      stores.map((store, process) => store.write((tx) => seedTrees(tx, hashing, [...known, own(process)]))),
    );
    const rows = await (stores[0]!.read as CompressionDb)
      .selectFrom('compression_trees')
      .select(['id', 'key'])
      .execute();
    assert.equal(rows.length, known.length + PROCESSES);
    for (const column of ['id', 'key'] as const)
      assert.equal(new Set(rows.map((row) => String(row[column]))).size, rows.length, column);
  });
});
