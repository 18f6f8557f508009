/**
 * A daemon that writes to NATS, Kafka, a bucket and ClickHouse (where it is installed) is killed, and so are these servers, while the chain moves; then the disk of each is full for a
 * while. In the end every target has the rows of the ledger, by count and hash, and none twice. SINK_KILLS=200 for more than a look, SINK_SEED for another course, SINK_MINUTES to begin no round after them.
 */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Keypair } from '@solana/web3.js';
import { chainMissing, startChain, type TestChain } from '../../helpers/chain.ts';
import { chdbMissing, serversMissing, startClickHouse } from '../../helpers/clickhouse.ts';
import { type DaemonProcess, runCommand, startDaemonProcess } from '../../helpers/daemon.ts';
import { createSfc32 } from '../../helpers/sfc32.ts';
import {
  SINK_CLIENTS_DIR,
  type SinkServer,
  sinkServersMissing,
  startChdb,
  startKafka,
  startNats,
  startS3,
} from '../../helpers/sink-servers.ts';
import { mountDisk } from '../../helpers/small-disk.ts';
import { until } from '../../helpers/until.ts';

const KILLS = Number(process.env['SINK_KILLS'] ?? 3);
const KEY = '5a0dd4a1-4f1c-4f0c-9a51-0a4f6d1f7a12';
const SEED = Number(process.env['SINK_SEED'] ?? 51);
const MINUTES = Number(process.env['SINK_MINUTES'] ?? Number.POSITIVE_INFINITY);
const CATCH_UP_MS = 300_000;
/** Each look is a command. */
const LOOK_MS = 200;
/** More than a target without trouble is ever behind. */
const BEHIND_SLOTS = 60;

interface Bed {
  readonly chain: TestChain;
  readonly servers: readonly SinkServer[];
  start(): Promise<DaemonProcess>;
}

async function startBed(t: TestContext, servers: readonly SinkServer[]): Promise<Bed> {
  const dataDir = mkdtempSync(join(tmpdir(), 'parhelion-sinks-'));
  mkdirSync(join(dataDir, 'data'));
  const chain = await startChain({ slotMs: 400, finalityDepth: 4, time: { kind: 'wall' } });
  let last: DaemonProcess | null = null;
  t.after(async () => {
    // Of a drill that failed: the process of the test would wait for it.
    await last?.kill();
    await chain.stop();
    for (const server of servers) await server.stop();
    rmSync(dataDir, { recursive: true, force: true });
  });
  const quick = { batchSlots: 8, batchSeconds: 0 };
  const [nats, kafka, bucket, ...clickhouses] = servers;
  const config = {
    plugins: ['access', 'proxy', 'sinks'],
    ledger: { retain: { hours: 24 } },
    follow: { pollMs: 50, auditIntervalMs: 100 },
    sinks: {
      targets: [
        { name: 'stream', kind: 'nats', target: nats!.target, ...quick },
        { name: 'topics', kind: 'kafka', target: kafka!.target, ...quick },
        { name: 'lake', kind: 's3', target: bucket!.target, ...quick },
        ...clickhouses.map(({ target }, at) => ({ name: `analytics-${at}`, kind: 'clickhouse', target, ...quick })),
      ],
    },
  };
  // Where an operator would have installed the clients.
  const env = { NODE_PATH: join(SINK_CLIENTS_DIR, 'node_modules') };
  return {
    chain,
    servers,
    async start() {
      last = await startDaemonProcess({ chain, dataDir: join(dataDir, 'data'), key: KEY, config, env });
      return last;
    },
  };
}

/** Like the other servers, each where it is installed: a server of the distribution, and the engine of today. */
async function clickhouseServers(): Promise<readonly SinkServer[]> {
  const found: SinkServer[] = [];
  if (serversMissing(1) === null) {
    const { servers, stop } = await startClickHouse(1);
    const { host, kill, start } = servers[0]!;
    found.push({ port: Number(host.split(':')[1]), target: `clickhouse://${host}`, crash: kill, revive: start, stop });
  }
  if (chdbMissing() === null) found.push(await startChdb());
  return found;
}

interface Listed {
  readonly name: string;
  readonly lastSlot: number | null;
}

async function listed(daemon: DaemonProcess): Promise<readonly Listed[]> {
  await sleep(LOOK_MS);
  const { out } = await runCommand(['sinks', 'list', '--json', '--config', daemon.configFile]);
  return JSON.parse(out) as readonly Listed[];
}

const reach = (daemon: DaemonProcess, slot: number) =>
  until(
    async () => (await listed(daemon)).every(({ lastSlot }) => lastSlot !== null && lastSlot >= slot),
    `every target has slot ${slot}\n${daemon.output().slice(-3_000)}`,
    CATCH_UP_MS,
  );

async function assertEqual(daemon: DaemonProcess, to: number, transfers: number): Promise<void> {
  for (const { name } of await listed(daemon)) {
    const args = ['sinks', 'verify', '--sink', name, '--to', String(to), '--json', '--config', daemon.configFile];
    const { code, out, err } = await runCommand(args);
    assert.equal(code, 0, `${name}: ${out}${err}`);
    const found = JSON.parse(out) as { rows: Record<string, number>; differenceCount: number };
    assert.deepEqual([found.differenceCount, found.rows['transfers']], [0, transfers], `${name}: ${out}`);
  }
}

const skip = sinkServersMissing() ?? (await chainMissing()) ?? false;

test(`${KILLS} kills of the daemon, NATS, Kafka, ClickHouse and the bucket lose no row and write none twice`, {
  skip,
}, async (t) => {
  const servers = [await startNats(), await startKafka(), await startS3(), ...(await clickhouseServers())];
  const bed = await startBed(t, servers);
  const random = createSfc32(SEED);
  const wallet = Keypair.generate().publicKey.toBase58();
  const crashes = servers.map(() => 0);
  let kill = 0;
  for (const endMs = performance.now() + MINUTES * 60_000; kill < KILLS && performance.now() < endMs; kill++) {
    const daemon = await bed.start();
    await bed.chain.fund(wallet, 1_000_000_000 + kill);
    await reach(daemon, await bed.chain.connection.getSlot('finalized'));
    await sleep(random.below(1_500));
    // All of them in the course of the drill, in a batch or between two.
    for (const [at, server] of bed.servers.entries()) {
      if (random.below(2) === 0) continue;
      await server.crash();
      crashes[at]! += 1;
      await sleep(random.below(500));
      if (random.below(2) === 0) await daemon.kill();
      await server.revive();
    }
    await daemon.kill();
  }
  const daemon = await bed.start();
  t.after(() => daemon.stop());
  await bed.chain.fund(wallet, 2_000_000_000);
  const end = await bed.chain.connection.getSlot('confirmed');
  await reach(daemon, end);
  await assertEqual(daemon, end, kill + 1);
  assert.ok(kill > 0 && (kill < 8 || crashes.every((count) => count > 0)), String(crashes));
  t.diagnostic(`${kill} rounds; kills of each server: ${crashes.join(', ')}`);
});

const disk = skip === false ? mountDisk(400_000_000) : null;
test('a full disk of NATS, Kafka and the bucket delays their rows and loses none', {
  skip: skip || (disk === null ? 'no file system can be mounted here' : false),
}, async (t) => {
  t.after(() => disk!.unmount());
  const { path } = disk!;
  const servers = [await startNats(path), await startKafka(path), await startS3(path)];
  const bed = await startBed(t, servers);
  const wallet = Keypair.generate().publicKey.toBase58();
  const daemon = await bed.start();
  t.after(() => daemon.stop());
  await bed.chain.fund(wallet, 1_000_000_000);
  await reach(daemon, await bed.chain.connection.getSlot('finalized'));
  disk!.fill(0);
  await bed.chain.fund(wallet, 1_000_000_001);
  await until(
    async () => {
      const final = await bed.chain.connection.getSlot('finalized');
      return (await listed(daemon)).some(({ lastSlot }) => lastSlot === null || lastSlot < final - BEHIND_SLOTS);
    },
    'a target falls behind',
    CATCH_UP_MS,
  );
  disk!.empty();
  // Kafka ends by itself when its disk is full: its operator starts it again.
  for (const server of servers) {
    await server.crash();
    await server.revive();
  }
  await bed.chain.fund(wallet, 1_000_000_002);
  const end = await bed.chain.connection.getSlot('confirmed');
  await reach(daemon, end);
  await assertEqual(daemon, end, 3);
});
