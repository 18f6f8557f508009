import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { runCommand, startDaemon, startDaemonProcess, type TestDaemon } from '../../helpers/daemon.ts';
import { createSfc32 } from '../../helpers/sfc32.ts';
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
      // Each writes what it counted and learns what the other has written: then only the other's next call is unknown to it.
      for (const daemon of [one, two]) await served(daemon);
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

interface UsageRecord {
  readonly creditsUsed: number;
  readonly credits: { readonly rpc: number; readonly archival: number };
  readonly requests: { readonly rpc: number; readonly archival: number };
}

/** What is written, with the sums that must agree: an answer is counted whole or not at all. */
async function sums({ projectId, configFile }: TestDaemon): Promise<number> {
  const args = ['projects', 'usage', '--id', projectId, '--json', '--config', configFile];
  const { code, out, err } = await runCommand(args);
  assert.equal(code, 0, err);
  const { creditsUsed, credits, requests } = JSON.parse(out) as UsageRecord;
  assert.deepEqual([credits.rpc, credits.archival], [requests.rpc, 10 * requests.archival]);
  assert.equal(creditsUsed, credits.rpc + credits.archival);
  return creditsUsed;
}

const item = (method: string, jsonrpc = '2.0') => ({ jsonrpc, id: 1, method, params: [method] });
/** What can be sent, and what it costs: a refused item costs nothing, also in a batch. */
const KINDS: readonly (readonly [body: object, credits: number])[] = [
  [item('getBalance'), 1],
  [item('getTransaction'), 10],
  [item('getBalance', '1.0'), 0],
  [[item('getBalance'), item('getTransaction'), item('getBalance', '1.0')], 11],
];

/** Calls of any price; gives the credits of what was answered, and of all that was sent. */
async function mixture({ apiUrl, key }: TestDaemon, count: number, random: ReturnType<typeof createSfc32>) {
  let answered = 0;
  let sent = 0;
  const one = async () => {
    const [body, credits] = KINDS[random.below(KINDS.length)]!;
    sent += credits;
    const init = { method: 'POST', body: JSON.stringify(body) };
    const text = await fetch(`${apiUrl}/?api-key=${key}`, init).then(
      (response) => response.text().catch(() => null),
      () => null,
    );
    // The process is gone, perhaps in the middle of its answer.
    if (text === null) return;
    assert.equal(text.includes('"result"'), credits > 0, text);
    answered += credits;
  };
  await Promise.all(Array.from({ length: count }, one));
  return { answered, sent };
}

test('one of two api processes on PostgreSQL is killed in the middle of its work, again and again', async (t) => {
  const database = await postgresDatabase(t);
  const upstream = await startUpstream();
  upstream.on('getBalance', { result: '{"context":{"slot":1},"value":1}' });
  upstream.on('getTransaction', { result: 'null' });
  const seed = Number(process.env['SEED'] ?? Date.now() % 1_000_000);
  t.diagnostic(`SEED=${seed}`);
  const random = createSfc32(seed);
  const options = {
    chain: { rpcUrl: upstream.url },
    store: database.url,
    config: {
      follow: { enabled: false },
      plugins: ['access', 'proxy'],
      proxy: { credits: { historical: 10 } },
      access: { usageFlushMs: 50 },
    },
  };
  const settled = async (daemon: TestDaemon, least: number): Promise<number> => {
    for (let tries = 0; tries < 600; tries += 1) {
      if ((await sums(daemon)) >= least) break;
      await sleep(50);
    }
    return await sums(daemon);
  };
  const one = await startDaemon(options);
  try {
    let total = 0;
    for (let round = 0; round < 3; round += 1) {
      const two = await startDaemonProcess({ ...options, key: one.key });
      const calm = await Promise.all([mixture(one, 60, random), mixture(two, 60, random)]);
      total += calm[0].answered + calm[1].answered;
      assert.equal(await settled(one, total), total, 'all that was answered, once');
      const storm = [mixture(one, 100, random), mixture(two, 200, random)] as const;
      await sleep(random.below(120));
      await two.kill();
      const [mine, theirs] = await Promise.all(storm);
      // The endpoint writes what this process has counted.
      const kept = await served(one);
      assert.equal(await sums(one), kept);
      const most = total + mine.answered + theirs.sent;
      assert.ok(kept >= total + mine.answered && kept <= most, `${kept} of ${total} + ${mine.answered} to ${most}`);
      total = kept;
    }
  } finally {
    await one.stop();
    await upstream.stop();
  }
});

test('two processes of the API answer no more calls than there are credits for, also after a top-up', async () => {
  const upstream = await startUpstream();
  upstream.on('getBalance', { result: '{"context":{"slot":1},"value":1}' });
  const daemon = await startDaemonProcess({
    chain: { rpcUrl: upstream.url },
    config: {
      plugins: ['access', 'proxy'],
      follow: { enabled: false },
      http: { processes: 2 },
      log: { level: 'error' },
    },
  });
  try {
    const command = async (...args: string[]) => {
      const { code, err } = await runCommand([...args, '--config', daemon.configFile]);
      assert.equal(code, 0, err);
    };
    const { projectId: id } = daemon;
    await command('projects', 'set-plan', '--id', id, '--override', JSON.stringify({ creditsLimit: 0 }));
    let used = 0;
    while ((await call(daemon, 1)) === 1) used += 1;
    await untilWritten(daemon, used);
    for (const credits of [60, 25]) {
      await command('projects', 'grant', '--id', id, '--credits', String(credits));
      let answered = 0;
      for (let tries = 0; tries < 200 && answered < credits; tries += 1) answered += await call(daemon, 48);
      for (let round = 0; round < 3; round += 1) answered += await call(daemon, 48);
      assert.ok(answered >= credits && answered <= credits + 1, `${answered} of ${credits}`);
      used += answered;
      await untilWritten(daemon, used);
    }
  } finally {
    await daemon.stop();
    await upstream.stop();
  }
});
