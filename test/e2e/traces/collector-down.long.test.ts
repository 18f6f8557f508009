import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type DaemonInProcess, runCommand, startDaemon } from '../../helpers/daemon.ts';
import { startUpstream, type TestUpstream } from '../../helpers/upstream.ts';
import { type Collector, startCollector } from './collector.ts';

const QUEUE = 20;
let collector: Collector;
let upstream: TestUpstream;
let daemon: DaemonInProcess;

before(async () => {
  [collector, upstream] = await Promise.all([startCollector(), startUpstream()]);
  collector.receiver.setFallback({ kind: 'silent' });
  daemon = await startDaemon({
    chain: { rpcUrl: upstream.url },
    config: {
      follow: { enabled: false },
      log: { level: 'silent' },
      plugins: ['access', 'proxy', 'sender', 'traces'],
      traces: { endpoint: collector.endpoint, intervalMs: 10, timeoutMs: 300, queueSpans: QUEUE, batchSpans: 5 },
    },
  });
});
after(async () => {
  await daemon?.stop();
  await upstream?.stop();
  await collector?.receiver.close();
});

const metric = async (name: string): Promise<number> => {
  const text = await (await fetch(`${daemon.adminUrl}/metrics`)).text();
  const lines = text.split('\n').filter((line) => line.startsWith(`parhelion_traces_${name}`));
  return lines.reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
};
const ping = async () => {
  const response = await fetch(`${daemon.apiUrl}/ping`);
  assert.equal(response.status, 200);
  await response.text();
};

test('an unresponsive collector delays nothing; spans without room are dropped and counted; later ones arrive', async () => {
  for (let i = 0; i < QUEUE * 5; i += 1) await ping();
  assert.ok((await metric('queue_spans')) <= QUEUE);
  assert.ok((await metric('spans_dropped_total')) >= QUEUE * 3, 'the rest did not wait for the collector');
  assert.equal(await metric('spans_exported_total'), 0);
  collector.receiver.setFallback({ kind: 'answer', status: 200, body: '{}' });
  for (let round = 0; round < 1_200 && (await metric('queue_spans')) > 0; round += 1)
    await new Promise((resolve) => setTimeout(resolve, 50));
  assert.equal(await metric('spans_exported_total'), QUEUE);
});

test('spans that a collector refuses are dropped and counted, and not sent again', async () => {
  const dropped = await metric('spans_dropped_total');
  collector.receiver.setFallback({ kind: 'answer', status: 400 });
  await ping();
  for (let round = 0; round < 1_200 && (await metric('spans_dropped_total')) === dropped; round += 1)
    await new Promise((resolve) => setTimeout(resolve, 50));
  assert.equal(await metric('spans_dropped_total'), dropped + 1);
  assert.equal(await metric('queue_spans'), 0);
});

test('waiting transactions are sent when the daemon stops', async () => {
  const other = await startCollector();
  const second = await startDaemon({
    config: { plugins: ['access', 'sender', 'traces'], traces: { endpoint: other.endpoint, intervalMs: 60_000 } },
  });
  const response = await fetch(`${second.apiUrl}/ping`);
  await response.text();
  await second.stop();
  assert.deepEqual(
    other.spans().map(({ name }) => name),
    ['GET /ping'],
  );
  await other.receiver.close();
});

test('switched on without a collector the configuration is refused', async () => {
  const env = { PARHELION_PLUGINS: '["access","traces"]', SOLANA_RPC_URL: 'http://127.0.0.1:9' };
  const { code, err, out } = await runCommand(['check-config'], { env });
  assert.equal(code, 78);
  assert.match(err + out, /TRACES_CONFIG|traces\.endpoint/);
});
