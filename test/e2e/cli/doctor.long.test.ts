import assert from 'node:assert/strict';
import { closeSync, mkdirSync, mkdtempSync, openSync, rmSync, statSync, writeFileSync, writeSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { Finding } from '../../../src/cli/doctor/finding.ts';
import { runCommand, startDaemonProcess } from '../../helpers/daemon.ts';
import { postgresDatabase } from '../../helpers/store.ts';
import { startUpstream, type TestUpstream } from '../../helpers/upstream.ts';

const SECRETS = /hush|hunter2/;

function temporary(t: TestContext): string {
  const dir = mkdtempSync(join(tmpdir(), 'parhelion-doctor-'));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

/** An upstream that has recent blocks. */
async function goodUpstream(t: TestContext, genesisHash = 'GenesisA', ageSeconds = 0): Promise<TestUpstream> {
  const upstream = await startUpstream({ slot: 5_000, genesisHash });
  t.after(() => upstream.stop());
  upstream.on('getVersion', { result: '{"solana-core":"2.1.0","feature-set":1}' });
  upstream.on('getFirstAvailableBlock', { result: '1000' });
  upstream.on('getBlocks', { result: '[4990,4999]' });
  const blockTime = Math.floor(Date.now() / 1_000) - ageSeconds;
  upstream.on('getBlock', { result: JSON.stringify({ blockTime, parentSlot: 4_990, blockhash: 'b' }) });
  return upstream;
}

async function doctor(dir: string, config: Record<string, unknown>) {
  const file = join(dir, 'config.yaml');
  const free = { http: { port: 0 }, admin: { port: 0 } };
  writeFileSync(file, JSON.stringify({ dataDir: join(dir, 'data'), ...free, ...config }), { mode: 0o600 });
  const people = await runCommand(['doctor', '--config', file]);
  const { code, out, err } = await runCommand(['doctor', '--json', '--config', file]);
  assert.equal(people.code, code, err);
  const report = JSON.parse(out) as { ok: boolean; exitCode: number; findings: Finding[] };
  assert.deepEqual([report.exitCode, report.ok], [code, code === 0]);
  assert.equal(people.out.split('\n').length, report.findings.length + 1, 'a line for each finding');
  assert.equal(SECRETS.test(out + people.out + err), false, out);
  for (const { level, advice } of report.findings) assert.equal(advice === undefined, level === 'ok');
  const of = (check: string) => report.findings.filter((finding) => finding.check === check);
  return { code, findings: report.findings, of, file };
}

const secretUrl = (upstream: TestUpstream) =>
  `${upstream.url.replace('http://', 'http://user:hunter2@')}/hush?api-key=hush`;

test('a healthy place: every check is ok, nothing is made, no secret is shown', async (t) => {
  const dir = temporary(t);
  const upstream = await goodUpstream(t);
  const { code, findings, of } = await doctor(dir, { upstream: { urls: [secretUrl(upstream)] } });
  assert.equal(code, 0, JSON.stringify(findings, null, 1));
  assert.match(of('upstream')[0]!.detail, /version 2\.1\.0, slot 5000, history from 1000/);
  assert.equal(of('clock')[0]!.level, 'ok');
  assert.match(of('store')[0]!.detail, /does not exist yet/);
  assert.throws(() => statSync(join(dir, 'data')), 'doctor made the data folder');
});

test('upstreams: behind, unhealthy, without blocks, of another chain, silent, with the wrong time', async (t) => {
  const dir = temporary(t);
  const [good, behind, other] = [await goodUpstream(t), await goodUpstream(t), await goodUpstream(t, 'GenesisB')];
  behind.on('getSlot', { result: '4000' });
  behind.on('getHealth', {
    chunks: ['{"jsonrpc":"2.0","id":1,"error":{"code":-32005,"message":"Node is behind by 1000 slots"}}'],
  });
  behind.on('getBlocks', { chunks: ['{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found"}}'] });
  const mixed = await doctor(dir, {
    upstream: { urls: [good, behind, other].map(secretUrl).concat('http://127.0.0.1:9/hush') },
  });
  assert.equal(mixed.code, 78);
  const texts = mixed.of('upstream').map(({ level, detail }) => `${level} ${detail}`);
  for (const expected of [
    /^ok main-0 /,
    /^warn main-1 .* reports that it is not healthy: getHealth: Node is behind by 1000 slots/,
    /^warn main-1 .* is 1000 slots behind the best/,
    /^fail main-1 .* does not return blocks: getBlocks: Method not found \(-32601\)/,
    /^fail main-2 .* serves another chain: genesis GenesisB, the first one has GenesisA/,
    /^warn UPSTREAM_CONNECT: main-3 .* cannot be reached/,
  ])
    assert.ok(
      texts.some((text) => expected.test(text)),
      `${expected} in ${texts.join('\n')}`,
    );

  const old = await goodUpstream(t, 'GenesisA', 300);
  const stale = await doctor(dir, { upstream: { urls: [old.url] }, follow: { startSlot: 10 } });
  assert.equal(stale.code, 0);
  assert.match(stale.of('clock')[0]!.detail, /^(299|30\d) s ahead of the newest block/);
  assert.ok(stale.of('upstream').some(({ detail }) => /no blocks before 1000, follow\.startSlot is 10/.test(detail)));

  const silent = await doctor(dir, { upstream: { urls: ['http://127.0.0.1:9/hush'] } });
  assert.equal(silent.code, 75);
});

test('the length of a slot is measured: by samples of the node, else by block times; never assumed', async (t) => {
  const dir = temporary(t);
  for (const slotMs of [200, 400]) {
    const upstream = await goodUpstream(t, 'GenesisA', (50 * slotMs) / 1_000);
    // The newest block that is listed is 50 slots old, and the first one has no time any more.
    upstream.on('getBlocks', { result: '[4950]' });
    upstream.on('getBlockTime', { result: 'null' });
    const samples = [150, 300].map((numSlots) => ({
      slot: 1,
      numSlots,
      samplePeriodSecs: (numSlots * slotMs) / 1_000,
    }));
    upstream.on('getRecentPerformanceSamples', { result: JSON.stringify(samples) });
    const { of } = await doctor(dir, { upstream: { urls: [upstream.url] } });
    assert.match(
      of('upstream')[0]!.detail,
      new RegExp(`slots of ${slotMs} ms, history from 1000 \\(0\\.${slotMs / 100} hours\\)`),
    );
    assert.match(of('clock')[0]!.detail, /^-?[0-3] s from the time of the newest block/);
  }
  const upstream = await goodUpstream(t, 'GenesisA', 0);
  upstream.on('getRecentPerformanceSamples', { result: '[]' });
  // 990 slots in 198 s; the first block is 3 days old, whatever its slot says.
  const now = Math.floor(Date.now() / 1_000);
  const first = (params: unknown) => Number((params as readonly unknown[])[0]);
  upstream.on('getBlocks', ({ params }) => ({ result: first(params) < 4_500 ? '[4000]' : '[4990]' }));
  upstream.on('getBlockTime', ({ params }) => {
    const slot = first(params);
    return { result: String(now - (slot === 1_000 ? 259_200 : slot === 4_000 ? 198 : 0)) };
  });
  const { of } = await doctor(dir, { upstream: { urls: [upstream.url] } });
  assert.match(of('upstream')[0]!.detail, /slots of 200 ms, history from 1000 \(3\.0 days\)/);
});

test('configuration: each problem is a line; what does not depend on it is still looked at', async (t) => {
  const { code, of } = await doctor(temporary(t), { http: { prot: 1 }, store: { url: 'mysql://hunter2@h/d' } });
  assert.equal(code, 78);
  assert.equal(of('configuration').length, 3);
  assert.equal(of('node').length, 1);
});

test('ports of another process fail, those of the running daemon do not; its readiness is reported', async (t) => {
  const dir = temporary(t);
  const upstream = await goodUpstream(t);
  const taken = createServer().listen(0, '127.0.0.1');
  t.after(() => taken.close());
  await new Promise((resolve) => taken.once('listening', resolve));
  const { port } = taken.address() as { port: number };
  const busy = await doctor(dir, { upstream: { urls: [upstream.url] }, http: { port } });
  assert.equal(busy.code, 75);
  assert.match(
    busy.of('port')[0]!.detail,
    new RegExp(`http\\.port: 127\\.0\\.0\\.1:${port} is held by another process`),
  );

  mkdirSync(join(dir, 'data'));
  const daemon = await startDaemonProcess({
    dataDir: join(dir, 'data'),
    chain: { rpcUrl: upstream.url },
    config: { plugins: ['access', 'proxy'], follow: { enabled: false } },
  });
  t.after(() => daemon.kill());
  const own = { port: Number(new URL(daemon.apiUrl).port), websocketPort: Number(new URL(daemon.wsUrl).port) };
  const plugins = ['access', 'proxy'];
  const running = await doctor(dir, { upstream: { urls: [upstream.url] }, http: own, plugins });
  assert.equal(running.code, 0, JSON.stringify(running.findings, null, 1));
  assert.deepEqual(
    running.of('port').map(({ level, detail }) => [level, /the daemon has/.test(detail)]),
    [1, 2, 3].map(() => ['ok', true]),
  );
  assert.ok(running.of('daemon').some(({ detail }) => /is ready/.test(detail)));
  assert.match(running.of('store')[0]!.detail, /quick_check finds nothing/);
  assert.match(running.of('schema')[0]!.detail, /up to date/);
  assert.equal(await daemon.stop(), 0);

  const other = await goodUpstream(t, 'GenesisB');
  const moved = await doctor(dir, { upstream: { urls: [other.url] } });
  assert.equal(moved.code, 78);
  assert.ok(moved.of('upstream').some(({ detail }) => /the store of main has GenesisA/.test(detail)));
});

test('a damaged database, one that waits for migrate, one of a newer version', async (t) => {
  const dir = temporary(t);
  const upstream = { urls: [(await goodUpstream(t)).url] };
  const first = await doctor(dir, { upstream, store: { migrate: 'manual' } });
  assert.equal((await runCommand(['migrate', '--config', first.file])).code, 0);
  assert.equal((await doctor(dir, { upstream })).of('schema')[0]!.level, 'ok');

  const file = join(dir, 'data', 'parhelion.db');
  const { size } = statSync(file);
  const handle = openSync(file, 'r+');
  for (let at = 4_096; at < size; at += 512) writeSync(handle, Buffer.alloc(256, 0xff), 0, 256, at);
  closeSync(handle);
  const damaged = await doctor(dir, { upstream });
  assert.equal(damaged.code, 78);
  assert.match(damaged.of('store')[0]!.advice!, /parhelion restore/);
  const start = await runCommand(['serve', '--config', damaged.file]);
  assert.equal(start.code, 78, start.err);
  assert.ok(
    damaged.of('store').some(({ level, detail }) => level === 'fail' && /damaged|CORRUPT|malformed/i.test(detail)),
    JSON.stringify(damaged.of('store')),
  );

  const empty = join(dir, 'empty');
  mkdirSync(join(empty, 'data'), { recursive: true });
  closeSync(openSync(join(empty, 'data', 'parhelion.db'), 'w'));
  const waits = await doctor(empty, { upstream, store: { migrate: 'manual' } });
  assert.equal(waits.code, 78);
  assert.match(waits.of('schema')[0]!.advice!, /parhelion migrate/);
});

test('PostgreSQL: reachable with its version, or not', async (t) => {
  const dir = temporary(t);
  const upstream = { urls: [(await goodUpstream(t)).url] };
  const database = await postgresDatabase(t);
  const there = await doctor(dir, { upstream, store: { url: database.url } });
  assert.equal(there.code, 0, JSON.stringify(there.findings, null, 1));
  assert.match(there.of('store')[0]!.detail, /PostgreSQL \d+.* answers/);
  const gone = await doctor(dir, { upstream, store: { url: 'postgres://user:hunter2@127.0.0.1:9/x' } });
  assert.equal(gone.code, 75);
  assert.match(gone.of('store')[0]!.detail, /STORE_UNREACHABLE/);
});
