/** What one process changes is known to the others at once, long before what they remember is too old. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { runCommand, startDaemonProcess, type TestDaemon } from '../../helpers/daemon.ts';
import { postgresDatabase } from '../../helpers/store.ts';
import { startUpstream } from '../../helpers/upstream.ts';

/** How long keys are remembered, and how long nobody waits for a change: a busy key is asked for again after half of the former. */
const REMEMBERED_MS = 60_000;
const PATIENCE_MS = 25_000;

async function statusOf({ apiUrl }: TestDaemon, key: string): Promise<number> {
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'getBalance', params: ['x'] });
  const response = await fetch(`${apiUrl}/?api-key=${key}`, { method: 'POST', body });
  await response.arrayBuffer();
  return response.status;
}

async function untilAll(daemons: readonly TestDaemon[], key: string, status: number): Promise<void> {
  const startedMs = performance.now();
  for (const daemon of daemons)
    for (let last = 0; last !== status; ) {
      last = await statusOf(daemon, key);
      if (last === status) continue;
      assert.ok(performance.now() - startedMs < PATIENCE_MS, `${last} instead of ${status}`);
      await sleep(20);
    }
}

test('a key that a command ends or limits, and a plan that it changes, are known to all processes on PostgreSQL', async (t) => {
  const database = await postgresDatabase(t);
  const upstream = await startUpstream();
  upstream.on('getBalance', { result: '{"context":{"slot":1},"value":1}' });
  const options = {
    chain: { rpcUrl: upstream.url },
    store: database.url,
    config: { follow: { enabled: false }, plugins: ['access', 'proxy'], access: { keyCacheMs: REMEMBERED_MS } },
  };
  const one = await startDaemonProcess(options);
  const two = await startDaemonProcess({ ...options, key: one.key });
  const run = async (...args: readonly string[]) => {
    const { code, out, err } = await runCommand([...args, '--json', '--config', one.configFile]);
    assert.equal(code, 0, err);
    return JSON.parse(out) as { readonly id: string; readonly key: string };
  };
  const project = ['--project', one.projectId];
  try {
    const both = [one, two];
    const { id, key } = await run('keys', 'create', ...project);
    const { id: limited, key: limitedKey } = await run('keys', 'create', ...project);
    for (const daemon of both) {
      assert.equal(await statusOf(daemon, key), 200);
      assert.equal(await statusOf(daemon, limitedKey), 200);
    }
    await run('keys', 'revoke', '--id', id);
    await untilAll(both, key, 401);
    await run('keys', 'allow-ip', '--id', limited, '--ips', '10.0.0.0/8');
    await untilAll(both, limitedKey, 403);
    await run('projects', 'set-plan', '--id', one.projectId, '--override', '{"creditsLimit":1}');
    await untilAll(both, one.key, 429);
    await run('projects', 'set-plan', '--id', one.projectId, '--override', '{}');
    await untilAll(both, one.key, 200);
  } finally {
    await one.stop();
    await two.stop();
    await upstream.stop();
  }
});
