import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { runCommand, startDaemon, startDaemonProcess, type TestDaemon } from '../../helpers/daemon.ts';
import { postgresDatabase } from '../../helpers/store.ts';
import { startUpstream } from '../../helpers/upstream.ts';

const CALLS = 40;

interface Usage {
  readonly creditsUsed: number;
  readonly requests: { readonly rpc: number };
}

/** Makes calls of one credit and gives how many were answered with a result. */
async function call({ apiUrl, key }: TestDaemon, count: number): Promise<number> {
  const answers = await Promise.all(
    Array.from({ length: count }, async (_, id) => {
      const body = JSON.stringify({ jsonrpc: '2.0', id, method: 'getBalance', params: [`${id}`] });
      const response = await fetch(`${apiUrl}/?api-key=${key}`, { method: 'POST', body });
      return response.status === 200 && 'result' in ((await response.json()) as object);
    }),
  );
  return answers.filter(Boolean).length;
}

/** What the store holds, read by the command. */
async function written({ projectId, configFile }: TestDaemon): Promise<number> {
  const { code, out, err } = await runCommand([
    'projects',
    'usage',
    '--id',
    projectId,
    '--json',
    '--config',
    configFile,
  ]);
  assert.equal(code, 0, err);
  const { creditsUsed, requests } = JSON.parse(out) as Usage;
  assert.equal(creditsUsed, requests.rpc);
  return creditsUsed;
}

async function untilWritten(daemon: TestDaemon, count: number): Promise<void> {
  for (let tries = 0; tries < 600 && (await written(daemon)) < count; tries += 1) await sleep(50);
  assert.equal(await written(daemon), count);
}

/** By the endpoint, which takes five calls a second. */
async function served({ apiUrl, key, projectId }: TestDaemon): Promise<number> {
  for (;;) {
    const response = await fetch(`${apiUrl}/v0/admin/projects/${projectId}/usage`, { headers: { 'X-Api-Key': key } });
    if (response.status === 200) return ((await response.json()) as Usage).creditsUsed;
    assert.equal(response.status, 429, await response.text());
    await sleep(300);
  }
}

test('SIGKILL loses no more than was not written, and nothing is ever counted twice; SIGTERM loses nothing', async () => {
  const upstream = await startUpstream();
  upstream.on('getBalance', { result: '{"context":{"slot":1},"value":1}' });
  const dataDir = mkdtempSync(join(tmpdir(), 'parhelion-usage-'));
  const start = (key?: string) =>
    startDaemonProcess({
      chain: { rpcUrl: upstream.url },
      dataDir,
      config: { follow: { enabled: false } },
      ...(key === undefined ? {} : { key }),
    });
  try {
    let daemon = await start();
    const { key } = daemon;
    assert.equal(await call(daemon, CALLS), CALLS);
    await untilWritten(daemon, CALLS);
    const late = await call(daemon, CALLS);
    await daemon.kill();
    daemon = await start(key);
    const kept = await served(daemon);
    assert.ok(kept >= CALLS && kept <= CALLS + late, `${kept} of ${CALLS} to ${CALLS + late}`);
    const more = await call(daemon, CALLS);
    // No interval passes: the endpoint and the end of the process write what is counted.
    assert.equal(await served(daemon), kept + more);
    const last = await call(daemon, 5);
    assert.equal(await daemon.stop(), 0);
    daemon = await start(key);
    assert.equal(await served(daemon), kept + more + last);
    await daemon.stop();
  } finally {
    await upstream.stop();
    rmSync(dataDir, { recursive: true, force: true });
  }
});

test('two api processes on PostgreSQL: every answered call is counted once, and credits end for both', async (t) => {
  const database = await postgresDatabase(t);
  const upstream = await startUpstream();
  upstream.on('getBalance', { result: '{"context":{"slot":1},"value":1}' });
  const options = {
    chain: { rpcUrl: upstream.url },
    store: database.url,
    config: { follow: { enabled: false }, access: { usageFlushMs: 100 } },
  };
  const one = await startDaemon(options);
  const two = await startDaemon({ ...options, key: one.key });
  try {
    let answered = 0;
    for (let round = 0; round < 5; round += 1) {
      const counts = await Promise.all([call(one, CALLS), call(two, CALLS)]);
      answered += counts.reduce((a, b) => a + b, 0);
    }
    assert.equal(answered, 10 * CALLS);
    await untilWritten(one, answered);
    assert.equal(await served(two), answered);
    // A limit just above: what both together still get is at most what each does not know of the other.
    const limit = answered + 30;
    const override = JSON.stringify({ creditsLimit: limit });
    const set = ['projects', 'set-plan', '--id', one.projectId, '--override', override, '--config', one.configFile];
    assert.equal((await runCommand(set)).code, 0);
    for (let tries = 0; tries < 200; tries += 1) {
      const got = (await call(one, 1)) + (await call(two, 1));
      answered += got;
      if (got === 0) break;
      await sleep(120);
    }
    await untilWritten(one, answered);
    assert.ok(answered >= limit && answered <= limit + 2, `${answered} of ${limit}`);
    assert.equal(await call(one, 3), 0);
    assert.equal(await call(two, 3), 0);
  } finally {
    await one.stop();
    await two.stop();
    await upstream.stop();
  }
});
