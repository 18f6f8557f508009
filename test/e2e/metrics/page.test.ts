import assert from 'node:assert/strict';
import { readdirSync, statSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { collectDefaultMetrics, Registry } from 'prom-client';
import WebSocket from 'ws';
import { type DaemonProcess, startDaemonProcess } from '../../helpers/daemon.ts';
import { promtoolCheck, promtoolMissing } from '../../helpers/promtool.ts';
import { startUpstream, type TestUpstream } from '../../helpers/upstream.ts';

const missing = promtoolMissing();

/** Samples by their name and labels. */
type Page = ReadonlyMap<string, number>;

function samplesOf(text: string): Page {
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  return new Map(
    lines.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ')))]),
  );
}

describe('the metrics page of a daemon with three threads, after traffic', () => {
  let upstream: TestUpstream;
  let daemon: DaemonProcess;
  let text = '';
  let page: Page;

  before(async () => {
    upstream = await startUpstream();
    upstream.on('getBalance', { result: '{"context":{"slot":1},"value":1}' });
    daemon = await startDaemonProcess({
      chain: { rpcUrl: upstream.url, wsUrl: upstream.wsUrl },
      config: { access: { usageFlushMs: 10 }, log: { level: 'info', format: 'json' } },
    });
    const call = (key: string) =>
      fetch(`${daemon.apiUrl}/?api-key=${key}`, {
        method: 'POST',
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'getBalance', params: ['1'.repeat(32)] }),
      });
    for (let n = 0; n < 3; n += 1) assert.equal((await call(daemon.key)).status, 200);
    assert.equal((await call('00000000-0000-4000-8000-000000000000')).status, 401);
    assert.equal((await fetch(`${daemon.apiUrl}/nothing/here`)).status, 404);
    const socket = new WebSocket(`${daemon.wsUrl}/?api-key=${daemon.key}`);
    await new Promise((resolve) => socket.once('open', resolve));
    socket.terminate();
    const credits = `parhelion_access_project_credits_total{project="${daemon.projectId}"}`;
    for (let round = 0; round < 600 && (page?.get(credits) ?? 0) < 3; round += 1) {
      text = await (await fetch(`${daemon.adminUrl}/metrics`)).text();
      page = samplesOf(text);
    }
  });
  after(async () => {
    await daemon?.stop();
    await upstream?.stop();
  });

  test('promtool finds nothing', { skip: missing ?? false }, () => {
    const { status, text: words } = promtoolCheck(['metrics'], text);
    assert.equal(words.trim(), '');
    assert.equal(status, 0);
    assert.notEqual(
      promtoolCheck(['metrics'], `${text}# TYPE parhelion_x_total gauge\nparhelion_x_total 1\n`).text,
      '',
    );
  });

  test('process and runtime have the names of the stock library', async () => {
    const register = new Registry();
    collectDefaultMetrics({ register });
    // Three gauges of the library end in `_total`, which promtool refuses; each is the sum of another one.
    const stock = (await register.getMetricsAsJSON())
      .map(({ name }) => name)
      .filter((name) => !/^nodejs_active_\w+_total$/.test(name));
    assert.ok(stock.length > 25);
    assert.deepEqual(
      stock.filter((name) => !text.includes(`# TYPE ${name} `)),
      [],
    );
    assert.doesNotMatch(text, /parhelion_(process|nodejs)_/);
    assert.ok(page.get('process_resident_memory_bytes')! > 1e7);
    assert.ok(
      page.get(
        `nodejs_version_info{version="${process.version}",major="${process.versions.node.split('.')[0]}",minor="${process.versions.node.split('.')[1]}",patch="${process.versions.node.split('.')[2]}"}`,
      ) === 1,
    );
  });

  test('the process is there once, the runtime of each thread with its role', () => {
    const process = [...page.keys()].filter((name) => /^(process_|nodejs_version)/.test(name));
    assert.deepEqual(
      process.filter((name) => name.includes('role=')),
      [],
    );
    for (const name of [
      'nodejs_heap_size_used_bytes',
      'nodejs_eventloop_lag_p99_seconds',
      'nodejs_external_memory_bytes',
    ])
      for (const labels of ['', '{role="indexer"}', '{role="deliverer"}'])
        assert.ok(page.has(name + labels), name + labels);
    assert.ok(
      [...page.keys()].some((name) => /^nodejs_heap_space_size_used_bytes\{space="new",role="indexer"\}$/.test(name)),
    );
  });

  test('sizes of the store and space of the disk', () => {
    const [file] = readdirSync(daemon.dataDir).filter((name) => name.endsWith('.db'));
    const known = page.get('parhelion_store_size_bytes{part="database"}')!;
    assert.ok(known > 0 && known <= statSync(`${daemon.dataDir}/${file}`).size);
    assert.ok(page.has('parhelion_store_size_bytes{part="wal"}'));
    const [free, size] = ['free', 'size'].map((what) => page.get(`parhelion_disk_${what}_bytes{folder="dataDir"}`)!);
    assert.ok(free! > 0 && free! <= size!);
  });

  test('requests, errors and credits of a project by its id', () => {
    const of = (name: string) => page.get(`parhelion_access_project_${name}_total{project="${daemon.projectId}"}`);
    assert.equal(of('requests'), 3);
    assert.equal(of('errors'), 0);
    assert.ok(of('credits')! >= 3);
    assert.ok(!text.includes(daemon.key), 'no key is in a label');
  });
});
