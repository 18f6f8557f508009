import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, type TestContext, test } from 'node:test';
import { Keypair, LAMPORTS_PER_SOL } from '@solana/web3.js';
import { createArchiveReader } from '../../../plugins/archive/reader.ts';
import { archiveKind } from '../../../plugins/archive/target.ts';
import { createArchiveEngine, parseArchive } from '../../../src/adapters/clickhouse/index.ts';
import { createSystemClock } from '../../../src/adapters/clock.ts';
import type { ArchiveEngine } from '../../../src/ports/ledger.ts';
import type { SinkKind } from '../../../src/ports/sink.ts';
import {
  compare,
  compareOverSeams,
  countOf,
  emptyLedger,
  fill,
  fillMiddle,
  startWriter,
  waitFor,
} from '../../helpers/archive.ts';
import { chainMissing, startChain } from '../../helpers/chain.ts';
import { CHDB_DIR, chdbMissing, serversMissing, startClickHouse } from '../../helpers/clickhouse.ts';
import { startDaemonProcess } from '../../helpers/daemon.ts';
import { findProjectRoot } from '../../helpers/project-root.ts';
import { createSfc32 } from '../../helpers/sfc32.ts';
import { openSink, sinkStore, startSink } from '../../helpers/sinks.ts';

const engineAt = (address: string, dataDir = '/', owns = true) =>
  createArchiveEngine({ address: parseArchive(address, 'main', dataDir), packages: CHDB_DIR, owns });

/** What every engine has to do. */
function suite(make: (t: TestContext) => Promise<ArchiveEngine>): void {
  test('blocks, transactions and pages of addresses as the ledger answers them', async (t) => {
    const engine = await make(t);
    const ledger = await emptyLedger(t);
    await fill(ledger, 1_000, 1_060);
    const run = startWriter(engine, ledger);
    t.after(() => run.stop());
    await waitFor('the archive', () => run.slot === ledger.finalSlot);
    const reader = createArchiveReader(engine, createSystemClock());
    assert.deepEqual(await reader.ranges(), [[1_000, ledger.finalSlot]]);
    await compare(reader, ledger, 999, ledger.finalSlot + 1);
    assert.equal(
      await reader.addressPage({ address: Buffer.alloc(32), reasons: 'keys', order: 'newest', limit: 1 }),
      null,
    );
  });

  test('the middle part of the history comes only from the archive, over both seams', async (t) => {
    const engine = await make(t);
    const middle = await emptyLedger(t);
    await fillMiddle(middle);
    const run = startWriter(engine, middle);
    t.after(() => run.stop());
    await waitFor('the archive', () => run.slot === middle.finalSlot);
    await compareOverSeams(t, createArchiveReader(engine, createSystemClock()));
  });

  test('a writer that is interrupted at any insert leaves nothing twice and nothing out', async (t) => {
    const engine = await make(t);
    const ledger = await emptyLedger(t);
    const random = createSfc32(5);
    let last = 499;
    for (let round = 0; round < 6; round++) {
      await fill(ledger, last + 1, last + 20);
      last += 20;
      let left = random.below(5);
      // The insert is lost, or done without an answer: nobody can tell.
      const isDone = random.below(2) === 0;
      const broken: ArchiveEngine = {
        ...engine,
        async insert(table, rows) {
          left -= 1;
          if (left >= 0 || isDone) await engine.insert(table, rows);
          if (left < 0) throw new Error('interrupted');
        },
      };
      const first = startWriter(broken, ledger);
      await waitFor('a failure', () => first.log.lines.some(({ level }) => level === 'warn'));
      await first.stop();
      const second = startWriter(engine, ledger);
      await waitFor('the archive', () => second.slot === ledger.finalSlot);
      await second.stop();
    }
    let [blocks, transactions] = [0, 0];
    for (let slot = 500; slot <= last; slot++) {
      const block = await ledger.block(slot);
      blocks += block === null ? 0 : 1;
      transactions += block?.transactions.length ?? 0;
    }
    assert.equal(await countOf(engine, 'blocks', 'slot'), blocks);
    assert.equal(await countOf(engine, 'transactions', '(slot, idx)'), transactions);
    assert.equal(await countOf(engine, 'signatures', 'signature'), transactions);
    const reader = createArchiveReader(engine, createSystemClock());
    assert.deepEqual(await reader.ranges(), [[500, ledger.finalSlot]]);
    await compare(reader, ledger, last - 20, last);
  });

  test('slots that the ledger does not have are a hole between two ranges, until it has them', async (t) => {
    const engine = await make(t);
    const ledger = await emptyLedger(t);
    await fill(ledger, 100, 110);
    const run = startWriter(engine, ledger);
    t.after(() => run.stop());
    await waitFor('the archive', () => run.slot === ledger.finalSlot);
    await fill(ledger, 125, 130);
    await waitFor('the archive', () => run.slot === ledger.finalSlot);
    const reader = createArchiveReader(engine, createSystemClock());
    const ranges = await reader.ranges();
    assert.deepEqual(
      ranges.map(([from]) => from),
      [100, 125],
    );
    assert.deepEqual(await reader.states(118, 118), { blocks: [], unknown: [118] });
    const page = await reader.addressPage({
      address: Buffer.alloc(32, 40),
      reasons: 'keys',
      order: 'newest',
      limit: 1_000,
      below: { slot: 120, index: 0 },
    });
    assert.deepEqual([page!.from, page!.to], [...ranges[0]!]);
    assert.match(JSON.stringify(run.log.lines), /slots are missing in the archive/);
    await fill(ledger, 111, 124);
    await waitFor('the hole', async () => {
      const now = await createArchiveReader(engine, createSystemClock()).ranges();
      return now.length === 1 && now[0]![1] === ledger.finalSlot;
    });
    await compare(createArchiveReader(engine, createSystemClock()), ledger, 100, ledger.finalSlot);
  });

  test('the runner of sinks writes it like any target of whole blocks, whatever becomes of its writes', async (t) => {
    const engine = await make(t);
    const [ledger, store] = [await emptyLedger(t), await sinkStore(t)];
    await fill(ledger, 200, 260);
    const random = createSfc32(9);
    const inner = archiveKind(engine);
    let failures = 0;
    const kind: SinkKind = {
      ...inner,
      async open(sink) {
        const target = await inner.open(sink);
        return {
          positions: () => target.positions(),
          close: () => target.close(),
          async write(batch) {
            const draw = random.below(3);
            if (draw === 0) failures += 1;
            if (draw === 0) throw new Error('nothing was sent');
            const position = await target.write(batch);
            if (draw === 1) failures += 1;
            if (draw === 1) throw new Error('the answer was lost');
            return position;
          },
        };
      },
    };
    const target = await inner.open(openSink('-'));
    const run = startSink({ store, ledger, kind, sink: openSink('-'), settings: { batchSlots: 5 } });
    t.after(() => run.stop());
    await waitFor('the sink', async () => (await target.positions()).at(-1)?.last === ledger.finalSlot);
    assert.ok(failures > 0);
    const reader = createArchiveReader(engine, createSystemClock());
    assert.deepEqual(await reader.ranges(), [[200, ledger.finalSlot]]);
    await compare(reader, ledger, 200, ledger.finalSlot);
    const [position] = await target.positions();
    assert.deepEqual(position, {
      part: 'live',
      first: 200,
      last: ledger.finalSlot,
      blockhash: (await ledger.header(ledger.finalSlot))?.blockhash,
    });
    // Whoever knows an older position writes nothing.
    const older = { ...position!, last: 205, blockhash: (await ledger.header(205))!.blockhash };
    const batch = { after: older, position: { ...older, last: 206 }, first: 206, rows: new Map(), blocks: [] };
    await assert.rejects(target.write(batch), { code: 'SINKS_MOVED' });
    await assert.rejects(target.write({ ...batch, after: null }), { code: 'SINKS_MOVED' });
  });

  test('the tables of an earlier version are read, its hole is filled, and they go on', async (t) => {
    const engine = await make(t);
    const { statements } = JSON.parse(
      readFileSync(`${findProjectRoot()}test/conformance/archive/released-tables.json`, 'utf8'),
    ) as ReleasedTables;
    for (const one of statements)
      if ('run' in one) await engine.run(one.run.replaceAll('{database}', engine.database));
      else await engine.insert(one.table, Buffer.from(one.rows, 'base64'));
    const reader = createArchiveReader(engine, createSystemClock());
    assert.deepEqual(await reader.ranges(), RELEASED_RANGES);
    const ledger = await emptyLedger(t);
    for (const [from, to] of RELEASED_RANGES) await fill(ledger, from, to, { transactions: 3 });
    for (const [from, to] of RELEASED_RANGES)
      for (let slot = from; slot <= to; slot++) {
        assert.deepEqual(await reader.header(slot), await ledger.header(slot));
        assert.deepEqual((await reader.text(slot))?.toString(), (await ledger.text(slot))?.toString());
      }
    await fill(ledger, RELEASED_RANGES[0]![1] + 1, RELEASED_RANGES[1]![0] - 1, { transactions: 3 });
    await fill(ledger, RELEASED_RANGES[1]![1] + 1, RELEASED_RANGES[1]![1] + 20, { transactions: 3 });
    const run = startWriter(engine, ledger);
    t.after(() => run.stop());
    await waitFor('the archive', () => run.slot === ledger.finalSlot);
    const then = createArchiveReader(engine, createSystemClock());
    const first = RELEASED_RANGES[0]![0];
    assert.deepEqual(await then.ranges(), [[first, ledger.finalSlot]]);
    await compare(then, ledger, first, ledger.finalSlot);
    const transactions = await countOf(engine, 'transactions', '(slot, idx)');
    const [stored] = await engine.select<{ n: string }>(`SELECT count() AS n FROM ${engine.database}.transactions`);
    assert.equal(Number(stored!.n), transactions, 'what is there is not written again');
  });
}

/** Slots of the tables of the earlier version. */
const RELEASED_RANGES = [
  [1_000, 1_003],
  [1_008, 1_010],
] as const;

/** What the archive of an earlier version ran on an empty database, in its order. Rows are in base64. */
interface ReleasedTables {
  readonly statements: readonly ({ readonly run: string } | { readonly table: string; readonly rows: string })[];
}

describe('chdb', { skip: chdbMissing() ?? false }, () => {
  suite(async (t) => {
    const dir = mkdtempSync(join(tmpdir(), 'chdb-'));
    const engine = engineAt(`chdb:${dir}`);
    t.after(async () => {
      await engine.close();
      rmSync(dir, { recursive: true, force: true });
    });
    return engine;
  });

  test('another role reads through the socket, and a killed engine is started again', async (t) => {
    const dir = mkdtempSync(join(tmpdir(), 'chdb-'));
    const engine = engineAt(`chdb:${dir}`);
    const other = engineAt(`chdb:${dir}`, '/', false);
    t.after(async () => {
      await engine.close();
      await other.close();
      rmSync(dir, { recursive: true, force: true });
    });
    await assert.rejects(other.select('SELECT 1'), { code: 'ARCHIVE_UNREACHABLE' });
    const ledger = await emptyLedger(t);
    await fill(ledger, 10, 40);
    const run = startWriter(engine, ledger);
    t.after(() => run.stop());
    await waitFor('the archive', () => run.slot === ledger.finalSlot);
    await compare(createArchiveReader(other, createSystemClock()), ledger, 10, 20);
    await assert.rejects(other.select('SELECT nothing FROM nowhere'), { code: 'ARCHIVE_REFUSED' });
  });
});

describe('a daemon with chdb', { skip: chdbMissing() ?? (await chainMissing()) ?? false }, () => {
  test('its final blocks are in the archive after kills of the whole daemon', async (t) => {
    // The package is looked for from the configuration up.
    const dataDir = mkdtempSync(join(CHDB_DIR, 'node_modules/data-'));
    const folder = mkdtempSync(join(tmpdir(), 'chdb-'));
    const chain = await startChain();
    t.after(async () => {
      await chain.stop();
      for (const dir of [dataDir, folder]) rmSync(dir, { recursive: true, force: true });
    });
    const start = () =>
      startDaemonProcess({
        chain: { rpcUrl: chain.rpcUrl, wsUrl: chain.wsUrl },
        dataDir,
        key: 'archive-test-key',
        config: {
          ledger: { retain: { hours: 1 }, archive: `chdb:${folder}` },
          follow: { startSlot: 0, pollMs: 20, enabled: true },
        },
      });
    const reader = engineAt(`chdb:${folder}`, '/', false);
    t.after(() => reader.close());
    const newest = async () => {
      const [row] = await reader.select<{ n: string }>('SELECT max(last) AS n FROM parhelion.ranges').catch(() => []);
      return Number(row?.n ?? 0);
    };
    // The chain makes a slot for each transaction; final are those 32 slots below.
    const more = async () => {
      await chain.fund(Keypair.generate().publicKey.toBase58(), LAMPORTS_PER_SOL);
      return (await newest()) > before;
    };
    let before = 0;
    for (let round = 0; round < 2; round++) {
      const daemon = await start();
      await waitFor('more slots', more);
      before = await newest();
      await daemon.kill();
    }
    const daemon = await start();
    t.after(() => daemon.stop());
    await waitFor('more slots', more);
    const ranges = await reader.select('SELECT first FROM parhelion.ranges GROUP BY first');
    assert.equal(ranges.length, 1);
    const doubles = await reader.select('SELECT slot FROM parhelion.blocks GROUP BY slot HAVING uniqExact(hash) > 1');
    assert.deepEqual(doubles, []);
  });
});

describe('servers of ClickHouse', { skip: serversMissing(1) ?? false }, () => {
  let made: Awaited<ReturnType<typeof startClickHouse>> | null = null;
  let number = 0;
  after(() => made?.stop());
  suite(async (t) => {
    made ??= await startClickHouse(1);
    number += 1;
    const engine = engineAt(`clickhouse://${made.servers[0]!.host}/one_${number}`);
    t.after(() => engine.close());
    return engine;
  });

  test('a server that is killed under load loses nothing, and the writer goes on', async (t) => {
    const server = made!.servers[0]!;
    const engine = engineAt(`clickhouse://default@${server.host}/killed`);
    t.after(() => engine.close());
    const ledger = await emptyLedger(t);
    await fill(ledger, 2_000, 2_010);
    const run = startWriter(engine, ledger);
    t.after(() => run.stop());
    for (let round = 0; round < 3; round++) {
      const from = ledger.newest() + 1;
      const filling = fill(ledger, from, from + 40);
      await waitFor('a batch', () => run.slot > from - 10);
      await server.kill();
      await filling;
      await server.start();
      await waitFor('the archive', () => run.slot === ledger.finalSlot);
    }
    const reader = createArchiveReader(engine, createSystemClock());
    assert.deepEqual(await reader.ranges(), [[2_000, ledger.finalSlot]]);
    await compare(reader, ledger, 2_000, ledger.finalSlot);
  });

  test('two servers: one is killed under load; the other answers what is complete, and both end equal', {
    skip: serversMissing() ?? false,
  }, async (t) => {
    const both = await startClickHouse(2);
    t.after(() => both.stop());
    const hosts = both.servers.map(({ host }) => host);
    const address = (list: readonly string[]) => `clickhouse://${list.join(',')}/twice?replicated=1&quorum=2`;
    for (const server of both.servers) await server.query('CREATE DATABASE IF NOT EXISTS twice');
    // Each server has its own tables of the replicated ones.
    const [first, second] = both.servers.map(({ host }) => engineAt(address([host])));
    const engine = engineAt(address(hosts));
    t.after(() => Promise.all([first!, second!, engine].map((each) => each.close())));
    const { createTables } = await import('../../../plugins/archive/tables.ts');
    await createTables(second!);
    const ledger = await emptyLedger(t);
    await fill(ledger, 3_000, 3_020);
    const run = startWriter(engine, ledger);
    t.after(() => run.stop());
    await waitFor('the first batch', () => run.slot === ledger.finalSlot);
    const complete = ledger.finalSlot;
    await both.servers[0]!.kill();
    const survivor = createArchiveReader(engine, createSystemClock());
    await compare(survivor, ledger, 3_000, complete);
    await fill(ledger, complete + 1, complete + 30);
    // One server is fewer than the quorum.
    await waitFor('a failure', () => run.log.lines.some(({ level }) => level === 'warn'));
    assert.equal((await survivor.header(complete))?.slot, complete);
    await both.servers[0]!.start();
    await waitFor('the archive', () => run.slot === ledger.finalSlot, 12_000);
    for (const each of [first!, second!]) {
      const reader = createArchiveReader(each, createSystemClock());
      await waitFor('the copy', async () => (await reader.ranges())[0]?.[1] === ledger.finalSlot);
      await compare(reader, ledger, 3_000, ledger.finalSlot);
    }
  });
});
