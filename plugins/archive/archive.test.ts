import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { createArchiveEngine, parseArchive } from '../../src/adapters/clickhouse/index.ts';
import { createSystemClock } from '../../src/adapters/clock.ts';
import { codeOf } from '../../src/lib/coded-error.ts';
import type { ArchiveEngine } from '../../src/ports/ledger.ts';
import { compareOverSeams, emptyLedger, fill, fillMiddle, startWriter, waitFor } from '../../test/helpers/archive.ts';
import { createArchiveReader } from './reader.ts';

/** What a fault does to an insert: before it is stored, after it is stored, or to the connection. */
type Fault = 'refused' | 'lost answer' | 'broken connection';

/** The HTTP interface alone: it keeps what is inserted, answers the question for the ranges, and fails on command. */
async function fakeServer(t: TestContext) {
  const inserts: { readonly table: string; readonly rows: readonly string[] }[] = [];
  const faults: Fault[] = [];
  const seen: { readonly user: unknown; readonly key: unknown; readonly query: URLSearchParams }[] = [];
  const server: Server = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on('data', (part: Buffer) => parts.push(part));
    request.on('end', () => {
      const query = new URL(request.url!, 'http://x').searchParams;
      seen.push({ user: request.headers['x-clickhouse-user'], key: request.headers['x-clickhouse-key'], query });
      const body = Buffer.concat(parts).toString('latin1');
      const insert = /^INSERT INTO \w+\.(\w+) /.exec(query.get('query') ?? '');
      if (insert === null) {
        const ranges = inserts.filter(({ table }) => table === 'ranges').flatMap(({ rows }) => rows);
        const shown = ranges.map((row) => {
          const [first, last, ...hash] = row.split('\t');
          return { first, last, hash: Buffer.from(hash.join('\t'), 'latin1').toString('hex') };
        });
        const text = shown.toSorted((a, b) => Number(a.last) - Number(b.last)).map((row) => `${JSON.stringify(row)}\n`);
        response.end(/FROM \w+\.ranges/.test(body) ? text.join('') : '');
        return;
      }
      const fault = faults.shift();
      if (fault === 'broken connection') return void request.socket.destroy();
      if (fault === 'refused') {
        response.writeHead(500).end('Code: 243, e.displayText() = DB::Exception: Cannot reserve 1.00 MiB');
        return;
      }
      inserts.push({ table: insert[1]!, rows: body.split('\n').slice(0, -1) });
      if (fault === 'lost answer') return void request.socket.destroy();
      response.end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  return { host: `127.0.0.1:${(server.address() as AddressInfo).port}`, inserts, faults, seen };
}

const engineAt = (t: TestContext, address: string): ArchiveEngine => {
  const engine = createArchiveEngine({ address: parseArchive(address, 'main', '/'), packages: '/', owns: true });
  t.after(() => engine.close());
  return engine;
};

const slotsOf = (inserts: Awaited<ReturnType<typeof fakeServer>>['inserts'], table: string) =>
  inserts
    .filter((each) => each.table === table)
    .flatMap(({ rows }) => rows.map((row) => row.split('\t').slice(0, 2).join(':')));

test('a range is written after all of its rows, and each fault is followed by the whole batch again', async (t) => {
  const server = await fakeServer(t);
  const ledger = await emptyLedger(t);
  await fill(ledger, 100, 120, { transactions: 2 });
  const engine = engineAt(t, `clickhouse://user:s%40cret@${server.host}/a?replicated=1&quorum=3`);
  const faults: readonly Fault[] = ['refused', 'broken connection', 'lost answer'];
  for (const fault of faults) {
    const before = server.inserts.length;
    server.faults.push(fault);
    await fill(ledger, ledger.newest() + 1, ledger.newest() + 12, { transactions: 2 });
    const run = startWriter(engine, ledger);
    await waitFor('the archive', () => run.slot === ledger.finalSlot);
    await run.stop();
    assert.equal(server.faults.length, 0);
    assert.ok(
      run.log.lines.some(({ level }) => level === 'warn'),
      fault,
    );
    const written = server.inserts.slice(before);
    assert.equal(written.at(-1)!.table, 'ranges');
    const complete = written.findIndex(({ table }) => table === 'ranges');
    assert.ok(written.slice(0, complete).some(({ table }) => table === 'addresses'));
  }
  const distinct = new Set(slotsOf(server.inserts, 'transactions'));
  const expected = [];
  for (let slot = 100; slot <= ledger.finalSlot; slot++)
    if (ledger.state(slot) === 'block') expected.push(`${slot}:0`, `${slot}:1`);
  assert.deepEqual([...distinct].toSorted(), expected.toSorted());
  assert.deepEqual(slotsOf(server.inserts, 'ranges').at(-1), `100:${ledger.finalSlot}`);
  assert.deepEqual([server.seen[0]!.user, server.seen[0]!.key], ['user', 's@cret']);
  assert.ok(server.seen.some(({ query }) => query.get('insert_quorum') === '3'));
});

test('a gap of the ledger is a hole of the archive until it is filled, also by a later process and in parts', async (t) => {
  const server = await fakeServer(t);
  const ledger = await emptyLedger(t);
  const engine = engineAt(t, `clickhouse://${server.host}`);
  const reader = createArchiveReader(engine, createSystemClock());
  const rangesNow = async () => await createArchiveReader(engine, createSystemClock()).ranges();
  await fill(ledger, 100, 110, { transactions: 1 });
  await fill(ledger, 131, 140, { transactions: 1 });
  const first = startWriter(engine, ledger);
  await waitFor('both ranges', () => first.slot === 140);
  assert.deepEqual(await reader.ranges(), [
    [100, 110],
    [131, 140],
  ]);
  assert.match(await first.metrics.text(), /archive_missing_slots 20/);
  // The upper part of the gap comes first.
  await fill(ledger, 121, 130, { transactions: 1 });
  await waitFor('the upper part', async () => (await rangesNow())[1]?.[0] === 121);
  await first.stop();
  await fill(ledger, 111, 120, { transactions: 1 });
  await fill(ledger, 141, 150, { transactions: 1 });
  // What the archive lacks must not leave the ledger.
  const broken = startWriter({ ...engine, insert: () => Promise.reject(new Error('down')) }, ledger);
  await waitFor('a failure', () => broken.log.lines.some(({ level }) => level === 'warn'));
  assert.equal(broken.slot, 110);
  await broken.stop();
  const second = startWriter(engine, ledger);
  t.after(() => second.stop());
  await waitFor('the rest', () => second.slot === ledger.finalSlot);
  assert.deepEqual(await rangesNow(), [[100, ledger.finalSlot]]);
  assert.match(await second.metrics.text(), /archive_missing_slots 0/);
  const written = new Set(slotsOf(server.inserts, 'blocks').map((row) => Number(row.split(':')[0])));
  assert.deepEqual([...written].sort(), ledger.states(100, ledger.finalSlot).blocks);
});

test('the engine of a folder is asked over the socket in that folder', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'parhelion-archive-'));
  const address = parseArchive('chdb:a', 'main', dir);
  mkdirSync(address.folder!, { recursive: true });
  const server = createServer((_, response) => response.end('{"one":1}\n'));
  await new Promise<void>((resolve) => server.listen(join(address.folder!, 'parhelion.sock'), resolve));
  const engine = createArchiveEngine({ address, packages: '/', owns: false });
  t.after(async () => {
    await engine.close();
    server.close();
    rmSync(dir, { recursive: true, force: true });
  });
  assert.deepEqual(await engine.select('SELECT 1 AS one'), [{ one: 1 }]);
});

test('a server that is away stops nothing: the writer goes on when it answers, and no error names the password', async (t) => {
  const ledger = await emptyLedger(t);
  await fill(ledger, 1, 9, { transactions: 1 });
  const server = await fakeServer(t);
  const engine = engineAt(t, `clickhouse://u:hidden@127.0.0.1:9,${server.host}`);
  const away = engineAt(t, 'clickhouse://u:hidden@127.0.0.1:9');
  const run = startWriter(away, ledger);
  await waitFor('failures', () => run.log.lines.some(({ level }) => level === 'error'));
  await run.stop();
  assert.equal(run.slot, -1);
  assert.equal(JSON.stringify(run.log.lines).includes('hidden'), false);
  const second = startWriter(engine, ledger);
  t.after(() => second.stop());
  await waitFor('the second host', () => second.slot === ledger.finalSlot);
});

test('the middle part of the history comes only from the archive, over both seams', async (t) => {
  const middle = await emptyLedger(t);
  await fillMiddle(middle);
  await compareOverSeams(t, {
    ...middle,
    ranges: async () => [[middle.firstOfRun(), middle.finalSlot]],
    states: async (from, to) => middle.states(from, to),
  });
});

test('addresses of an archive', () => {
  const parse = (text: string, chain: 'main' | 'devnet' = 'main') => parseArchive(text, chain, '/data');
  assert.deepEqual(parse('chdb:archive').folder, '/data/archive/main');
  assert.deepEqual(parse('chdb:/a/b', 'devnet').folder, '/a/b/devnet');
  const plain = parse('clickhouse://one');
  assert.deepEqual(
    [plain.origins, plain.database, plain.quorum, plain.headers],
    [['http://one:8123'], 'parhelion', 0, {}],
  );
  const many = parse('clickhouse://u:p%3A@a:1,b/db?secure=1&replicated=1', 'devnet');
  assert.deepEqual(many.origins, ['https://a:1', 'https://b:8443']);
  assert.deepEqual([many.database, many.quorum, many.headers['x-clickhouse-key']], ['db_devnet', 2, 'p:']);
  for (const wrong of [
    'chdb:',
    'http://a',
    'clickhouse://',
    'clickhouse://a/b-c',
    'clickhouse://a?x=1',
    `chdb:/${'x'.repeat(90)}`,
    'clickhouse://u:hidden@a?replicated=1&quorum=x',
  ])
    assert.throws(
      () => parse(wrong),
      (error) => codeOf(error) === 'CONFIG_INVALID' && !String(error).includes('hidden'),
      wrong,
    );
});
