import assert from 'node:assert/strict';
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { s3Kind } from '../../../plugins/sinks/targets/s3.ts';
import { emptyLedger, fill } from '../../helpers/archive.ts';
import { duckdbMissing, openDuckdb } from '../../helpers/duckdb.ts';
import { startFaultProxy } from '../../helpers/fault-proxy.ts';
import { docsBlock } from '../../helpers/readme.ts';
import { BUCKET, SINK_CLIENTS_DIR, type SinkServer, sinkServersMissing, startS3 } from '../../helpers/sink-servers.ts';
import { assertRows, openSink, sinkStore, startSink } from '../../helpers/sinks.ts';
import { until } from '../../helpers/until.ts';
import { sinkSuite } from './suite.ts';

const skip = sinkServersMissing() ?? false;
const kind = s3Kind([SINK_CLIENTS_DIR]);
let server: SinkServer;
let places = 0;
/** One of seven slots has no block. */
const SLOTS_MORE = 7;
if (skip === false) {
  before(async () => {
    server = await startS3();
  });
  after(() => server.stop());
}

sinkSuite({
  name: 's3',
  kind,
  skip,
  async place() {
    places += 1;
    return server.target.replace('/rows?', `/rows${places}?`);
  },
});

test('s3: connections that break and answers that are lost leave each row once', { skip }, async (t) => {
  const ledger = await emptyLedger(t);
  await fill(ledger, 11, 120, { hasTransfers: true });
  const proxy = await startFaultProxy(server.port, 7);
  t.after(() => proxy.close());
  const direct = server.target.replace('/rows?', '/faults?');
  const [store, sink] = [await sinkStore(t), openSink(direct.replace(`:${server.port}/`, `:${proxy.port}/`))];
  const run = startSink({ store, ledger, kind, sink, settings: { batchSlots: 5 } });
  t.after(run.stop);
  const target = await kind.open(openSink(direct));
  const last = async () => (await target.positions())[0]?.last ?? -1;
  for (const plan of [
    { up: { resetAfterBytes: 3_000 }, probability: 0.3 },
    // The store has done it, and nobody hears of it.
    { down: { resetAfterBytes: 0 }, probability: 0.3 },
    { down: { endAfterBytes: 40 }, probability: 0.3 },
  ]) {
    const [before, { broken }] = [await last(), { ...proxy.seen }];
    proxy.set(plan);
    proxy.cut();
    await until(async () => {
      const at = await last();
      if (proxy.seen.broken > broken && at > before) return true;
      // A sink that has caught up opens no connection that could break, and one that does not break is used again.
      if (at === ledger.finalSlot) {
        await fill(ledger, at + 1, at + SLOTS_MORE, { hasTransfers: true });
        proxy.cut();
      }
      return false;
    });
  }
  proxy.clear();
  proxy.cut();
  await until(async () => (await last()) === ledger.finalSlot, 'the sink has caught up');
  assert.ok(proxy.seen.broken >= 3, `${proxy.seen.broken} connections broke`);
  await assertRows(target, ledger, 11, ledger.finalSlot);
});

test('s3: DuckDB reads the files that manifests name as one table', {
  skip: skip || (duckdbMissing() ?? false),
}, async (t) => {
  const ledger = await emptyLedger(t);
  await fill(ledger, 11, 80, { hasTransfers: true });
  const place = server.target.replace('/rows?', '/duck?');
  const target = await kind.open(openSink(place));
  const store = await sinkStore(t);
  const run = startSink({ store, ledger, kind, sink: openSink(place) });
  await until(async () => (await target.positions())[0]?.last === ledger.finalSlot);
  await run.stop();
  // DuckDB's own reader of buckets is an extension from elsewhere: the objects are copied, as they are.
  const folder = mkdtempSync(join(tmpdir(), 'parhelion-bucket-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const root = `http://127.0.0.1:${server.port}/${BUCKET}`;
  const listed = await (await fetch(`${root}?list-type=2&prefix=duck/`)).text();
  const keys = [...listed.matchAll(/<Key>([^<]*)</g)].map(([, key]) => key!);
  for (const key of keys) {
    mkdirSync(dirname(join(folder, key)), { recursive: true });
    writeFileSync(join(folder, key), Buffer.from(await (await fetch(`${root}/${key}`)).arrayBuffer()));
  }
  // What a batch that broke off has left.
  const rows = keys.find((key) => key.includes('/transactions-'))!;
  copyFileSync(join(folder, rows), join(folder, dirname(rows), 'transactions-left.parquet'));
  const ask = await openDuckdb();
  const statements = docsBlock('getvariable')
    .replaceAll('s3://BUCKET/PREFIX', join(folder, 'duck'))
    .replace("'transfers'", "'transactions'")
    .replace(/SELECT mint.*FROM/, 'SELECT count(*) FROM')
    .replace(' GROUP BY mint', '')
    .split('\n')
    .filter((line) => line !== '');
  let answer: unknown[][] = [];
  for (const statement of statements) answer = await ask(statement);
  let expected = 0;
  for (const slot of ledger.states(11, 80).blocks) expected += (await ledger.block(slot))!.transactions.length;
  assert.deepEqual(
    answer.map((row) => row.map(Number)),
    [[expected]],
  );
});
