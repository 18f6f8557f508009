/**
 * A daemon that writes three sinks is killed, and so is the PostgreSQL that one of them writes to, while the chain moves. In the end every
 * target has the rows of the ledger, by count and hash, and none twice. SINK_KILLS=200 for more than a look, SINK_SEED for another course,
 * SINK_MINUTES to begin no round after them.
 */
import assert from 'node:assert/strict';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Keypair, PublicKey } from '@solana/web3.js';
import pg from 'pg';
import { ALL_TABLES } from '../../../plugins/sinks/rows/tables.ts';
import { ndjsonKind } from '../../../plugins/sinks/targets/ndjson.ts';
import { postgresKind } from '../../../plugins/sinks/targets/postgres.ts';
import { sumOf } from '../../../plugins/sinks/verify.ts';
import { apiOf } from '../../conformance/webhooks/daemon.ts';
import { chainMissing, startChain, type TestChain } from '../../helpers/chain.ts';
import { type DaemonProcess, runCommand, startDaemonProcess } from '../../helpers/daemon.ts';
import { type PostgresServer, startPostgresServer } from '../../helpers/postgres-server.ts';
import { findProjectRoot } from '../../helpers/project-root.ts';
import { startReceiver } from '../../helpers/receiver.ts';
import { createSfc32 } from '../../helpers/sfc32.ts';
import { openSink } from '../../helpers/sinks.ts';
import { until } from '../../helpers/until.ts';

const KILLS = Number(process.env['SINK_KILLS'] ?? 4);
const KEY = '5a0dd4a1-4f1c-4f0c-9a51-0a4f6d1f7a11';
const SEED = Number(process.env['SINK_SEED'] ?? 50);
const MINUTES = Number(process.env['SINK_MINUTES'] ?? Number.POSITIVE_INFINITY);
/** The chain makes blocks faster than a busy machine may take them. */
const CATCH_UP_MS = 300_000;
/** Each look at the tables is a connection. */
const LOOK_MS = 100;

interface Bed {
  readonly chain: TestChain;
  readonly postgres: PostgresServer;
  readonly folder: string;
  start(): Promise<DaemonProcess>;
  /** Newest slot in the tables; -1 while there is none, or nobody answers. */
  lastInPostgres(): Promise<number>;
}

async function startBed(t: TestContext, wallet: string): Promise<Bed> {
  const folder = mkdtempSync(join(tmpdir(), 'parhelion-sinks-'));
  const chain = await startChain({ slotMs: 400, finalityDepth: 4, time: { kind: 'wall' } });
  const postgres = await startPostgresServer();
  let last: DaemonProcess | null = null;
  t.after(async () => {
    // Of a drill that failed: the process of the test would wait for it.
    await last?.kill();
    await chain.stop();
    await postgres.stop();
    rmSync(folder, { recursive: true, force: true });
  });
  const dataDir = join(folder, 'data');
  mkdirSync(dataDir);
  // A third party's plugin, in a place of its own.
  const plugin = join(folder, 'lines-sink');
  cpSync(join(findProjectRoot(), 'test/example-plugins/lines-sink'), plugin, { recursive: true });
  const tables = ALL_TABLES.map(({ name }) => name);
  const quick = { batchSlots: 8, batchSeconds: 0 };
  const config = {
    plugins: ['access', 'proxy', 'webhooks', 'sinks', join(plugin, 'index.ts')],
    webhooks: { allowCidrs: ['127.0.0.0/8'], allowHttp: true },
    ledger: { retain: { hours: 24 } },
    follow: { pollMs: 50, auditIntervalMs: 100 },
    sinks: {
      accounts: [wallet],
      targets: [
        { name: 'tables', kind: 'postgres', target: postgres.url, tables, ...quick },
        { name: 'files', kind: 'ndjson', target: join(folder, 'files'), tables, ...quick },
        { name: 'lines', kind: 'lines', target: join(folder, 'lines.jsonl'), ...quick },
      ],
    },
  };
  return {
    chain,
    postgres,
    folder,
    async start() {
      last = await startDaemonProcess({ chain, dataDir, key: KEY, config });
      return last;
    },
    async lastInPostgres() {
      await sleep(LOOK_MS);
      const client = new pg.Client({ connectionString: postgres.url });
      client.on('error', () => undefined);
      try {
        await client.connect();
        const { rows } = await client.query('select max(last_slot) as last from sink_tables.sink_positions');
        return Number(rows[0].last ?? -1);
      } catch {
        return -1;
      } finally {
        await client.end().catch(() => undefined);
      }
    },
  };
}

/** The lines of the third party's file: rows by table, and the newest slot that it acknowledged. */
function readLines(path: string) {
  const rows: (readonly [table: string, slot: number, ...rest: unknown[]])[] = [];
  let last = -1;
  for (const line of readFileSync(path, 'utf8').split('\n').slice(0, -1)) {
    const value = JSON.parse(line) as { last: number } | (typeof rows)[number];
    if (Array.isArray(value)) rows.push(value as (typeof rows)[number]);
    else last = (value as { last: number }).last;
  }
  return { rows, last };
}

test(`${KILLS} kills of the daemon and of its database lose no row and write none twice`, {
  skip: (await chainMissing()) ?? false,
}, async (t) => {
  const wallet = Keypair.generate().publicKey.toBase58();
  const receiver = await startReceiver();
  t.after(() => receiver.close());
  const bed = await startBed(t, wallet);
  const random = createSfc32(SEED);
  let kill = 0;
  for (const endMs = performance.now() + MINUTES * 60_000; kill < KILLS && performance.now() < endMs; kill++) {
    const daemon = await bed.start();
    if (kill === 0) await watch(daemon, receiver.url, wallet);
    const before = await bed.lastInPostgres();
    const reaches = (slot: number) =>
      until(async () => (await bed.lastInPostgres()) >= slot, `slot ${slot} is in the tables\n${daemon.output()}`);
    await reaches(before + 1);
    await bed.chain.fund(wallet, 1_000_000_000 + kill);
    await reaches(before + 1 + random.below(4) * 4);
    if (kill % 2 === 1) {
      await bed.postgres.crash();
      await bed.postgres.revive();
    }
    await daemon.kill();
  }
  const daemon = await bed.start();
  t.after(() => daemon.stop());
  await bed.chain.fund(wallet, 2_000_000_000);
  // The chain went on while no daemon ran: all of that is caught up.
  const end = await bed.chain.connection.getSlot('confirmed');
  const listed = async () => {
    await sleep(LOOK_MS);
    const { out } = await runCommand(['sinks', 'list', '--json', '--config', daemon.configFile]);
    return JSON.parse(out) as readonly { name: string; state: string; lastSlot: number | null }[];
  };
  await until(
    async () => (await listed()).every(({ lastSlot }) => lastSlot !== null && lastSlot >= end),
    `every target has slot ${end}\n${daemon.output()}`,
    CATCH_UP_MS,
  );
  for (const sink of ['tables', 'files']) {
    const args = ['sinks', 'verify', '--sink', sink, '--to', String(end), '--json', '--config', daemon.configFile];
    const { code, out, err } = await runCommand(args);
    assert.equal(code, 0, `${sink}: ${out}${err}`);
    const found = JSON.parse(out) as { rows: Record<string, number>; differenceCount: number };
    assert.equal(found.differenceCount, 0);
    assert.equal(found.rows['transfers'], kill + 1, out);
  }
  await assertEvents(bed, wallet, kill + 1);
  await assertLines(bed);
  t.diagnostic(`${kill} kills of the daemon, ${Math.floor(kill / 2)} of PostgreSQL`);
  assert.deepEqual(
    (await listed()).map(({ name, state }) => [name, state]),
    [
      ['tables', 'running'],
      ['files', 'running'],
      ['lines', 'running'],
    ],
  );
});

/** Each payment of the wallet is delivered. */
async function watch({ apiUrl, key }: DaemonProcess, webhookURL: string, wallet: string): Promise<void> {
  const hook = { webhookURL, webhookType: 'raw', accountAddresses: [wallet] };
  const { status, body } = await apiOf(apiUrl, key)('POST', '/v0/webhooks', hook);
  assert.equal(status, 200, JSON.stringify(body));
}

/** Each of the payments wrote the wallet, and its delivery ended once; the same rows are in both targets. */
async function assertEvents({ folder, postgres, chain }: Bed, wallet: string, payments: number): Promise<void> {
  const files = await ndjsonKind.open(openSink(join(folder, 'files'), { tables: ALL_TABLES }));
  const tables = await postgresKind.open(openSink(postgres.url, { name: 'tables', tables: ALL_TABLES }));
  // A delivery that was in flight at a kill is made again when its lease has ended; one at `confirmed` may have ended before its block was final.
  let end = -1;
  for (const target of [files, tables])
    await until(
      async () => {
        const read = async (table: string) => await target.read!(table, 0, Number.MAX_SAFE_INTEGER);
        const done = (await read('deliveries')).filter((row) => row.at(-1) === 'done');
        const writes = await read('account_writes');
        for (const [slot] of done.concat(writes)) end = Math.max(end, slot as number);
        return done.length >= payments && writes.length >= payments;
      },
      'every delivery has ended and every write is final, and both are rows',
      CATCH_UP_MS,
    );
  const rowsOf = async (table: string) => {
    const [inFiles, inTables] = [await files.read!(table, 0, end), await tables.read!(table, 0, end)];
    assert.deepEqual(sumOf(inFiles), sumOf(inTables), table);
    const columns = ALL_TABLES.find(({ name }) => name === table)!.columns;
    return inTables.map((row) => Object.fromEntries(columns.map(({ name }, at) => [name, row[at]])));
  };
  const writes = await rowsOf('account_writes');
  assert.ok(
    writes.every((row) => row['account'] === wallet && (row['read_slot'] as number) >= (row['slot'] as number)),
  );
  assert.equal(new Set(writes.map((row) => row['signature'])).size, writes.length);
  const newest = writes.toSorted((a, b) => (a['slot'] as number) - (b['slot'] as number)).at(-1)!;
  assert.equal(newest['lamports'], BigInt(await chain.connection.getBalance(new PublicKey(wallet))));
  const ended = (await rowsOf('deliveries')).filter((row) => row['outcome'] === 'done');
  assert.equal(new Set(ended.map((row) => row['delivery_id'])).size, ended.length);
  await tables.close();
  assert.deepEqual([writes.length, ended.length], [payments, payments]);
}

/** The lines of the third party's sink against the files, whose rows were compared with the ledger. */
async function assertLines({ folder }: Bed): Promise<void> {
  const files = await ndjsonKind.open(openSink(join(folder, 'files')));
  const { rows, last } = readLines(join(folder, 'lines.jsonl'));
  const [position] = await files.positions();
  const to = Math.min(last, position!.last);
  const signatures = (await files.read!('transfers', 0, to)).map((row) => `${row[0]}:${String(row[4])}`);
  const lines = rows.filter(([table, slot]) => table === 'transfers' && slot <= to);
  assert.deepEqual(lines.map((row) => `${row[1]}:${String(row[5])}`).toSorted(), signatures.toSorted());
}
