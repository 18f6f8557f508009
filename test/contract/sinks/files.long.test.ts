import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { ndjsonKind } from '../../../plugins/sinks/targets/ndjson.ts';
import { parquetKind } from '../../../plugins/sinks/targets/parquet.ts';
import { codeOf } from '../../../src/lib/coded-error.ts';
import { AMOUNT_FORMS } from '../../../src/lib/parquet-columns.ts';
import { emptyLedger, fill } from '../../helpers/archive.ts';
import { duckdbMissing, openDuckdb } from '../../helpers/duckdb.ts';
import { assertRows, batchOf, openSink, sinkStore, startSink } from '../../helpers/sinks.ts';
import { until } from '../../helpers/until.ts';
import { sinkSuite } from './suite.ts';

async function place(t: TestContext): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'parhelion-sink-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return join(folder, 'rows');
}

sinkSuite({ name: 'ndjson', kind: ndjsonKind, place });
sinkSuite({ name: 'parquet', kind: parquetKind, place });

test('DuckDB reads the files of all batches as one table, amounts included', {
  skip: duckdbMissing() ?? false,
}, async (t) => {
  const ledger = await emptyLedger(t);
  await fill(ledger, 11, 80, { hasTransfers: true });
  const folder = await place(t);
  const [sink, store] = [openSink(folder), await sinkStore(t)];
  const run = startSink({ store, ledger, kind: parquetKind, sink });
  const target = await parquetKind.open(sink);
  await until(async () => (await target.positions())[0]?.last === ledger.finalSlot);
  await run.stop();
  const ask = await openDuckdb();
  const files = (table: string) => `read_parquet('${folder}/*/*/${table}.parquet')`;
  let [failed, all, moved] = [0, 0, 0];
  for (const slot of ledger.states(11, 80).blocks)
    for (const { error, postTokenBalances } of (await ledger.block(slot))!.transactions) {
      all += 1;
      if (error !== null) failed += 1;
      // Lamports for a token account are its rent, and no transfer.
      else if (postTokenBalances.length === 0) moved += 1;
    }
  const [counts] = await ask(`
    select count(*), count(*) filter (not t.success), count(distinct (t.slot, t.transaction_index)), count(distinct b.slot)
    from ${files('transactions')} t join ${files('blocks')} b using (slot)`);
  assert.deepEqual(counts!.map(Number), [all, failed, all, ledger.states(11, 80).blocks.length]);
  const [amounts] = await ask(`select count(*), min(amount), max(amount) from ${files('transfers')}`);
  assert.deepEqual(amounts!.map(String), [String(moved), ...Array(2).fill(String(2n ** 64n - 1n))]);
});

test('amounts as integers, decimals or texts: each is exact for DuckDB and for sinks verify', {
  skip: duckdbMissing() ?? false,
}, async (t) => {
  const ledger = await emptyLedger(t);
  await fill(ledger, 11, 20, { hasTransfers: true });
  const ask = await openDuckdb();
  const largest = 2n ** 64n - 1n;
  for (const [amounts, type, literal] of [
    ['integer', 'UBIGINT', largest],
    ['decimal', 'DECIMAL(20,0)', largest],
    ['text', 'VARCHAR', `'${largest}'`],
  ] as const) {
    const folder = await place(t);
    const target = await parquetKind.open(openSink(folder, { options: { amounts } }));
    await target.write(await batchOf(ledger, 11, 20));
    const transfers = `read_parquet('${folder}/*/*/transfers.parquet')`;
    const [all] = await ask(`select count(*), any_value(typeof(amount)) from ${transfers}`);
    const [largestOnes] = await ask(`select count(*) from ${transfers} where amount = ${literal}`);
    assert.ok(Number(all![0]) > 0);
    assert.deepEqual([largestOnes![0], all![1]], [all![0], type]);
    await assertRows(target, ledger, 11, 20);
    // Files stay readable when the setting is another one.
    for (const other of AMOUNT_FORMS)
      await assertRows(await parquetKind.open(openSink(folder, { options: { amounts: other } })), ledger, 11, 20);
  }
  const wrong = openSink(await place(t), { options: { amounts: 'float' } });
  await assert.rejects(parquetKind.open(wrong), (error) => codeOf(error) === 'SINKS_REFUSED');
});
