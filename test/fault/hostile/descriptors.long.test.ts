/** A daemon that may open few files, and more connections than that. */
import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { BOOTSTRAP_KEY, startBuiltDaemon } from '../../helpers/built-daemon.ts';
import { until } from '../../helpers/until.ts';
import { startUpstream } from '../../helpers/upstream.ts';

/** Three threads load the pieces of the program at once. */
const LIMIT = 240;
const CONNECTIONS = 270;
/** What has to stay free for the files of the store. */
const MIN_FREE = 8;

test('idle connections beyond the limit of open files cost the daemon nothing', { timeout: 120_000 }, async (t) => {
  const upstream = await startUpstream();
  upstream.on('getHello', { result: '"hello"' });
  const dataDir = mkdtempSync(join(tmpdir(), 'parhelion-descriptors-'));
  const configFile = join(dataDir, 'parhelion.yaml');
  const listeners = 'http: { port: 0 }\nadmin: { port: 0 }\nplugins: [access, proxy, webhooks]\n';
  writeFileSync(configFile, `dataDir: ${dataDir}\nupstream: { urls: ["${upstream.url}"] }\n${listeners}`);
  const wrapper = ['bash', '-c', `ulimit -n ${LIMIT}; exec "$@"`, 'bash'];
  const daemon = startBuiltDaemon({ configFile, dataDir, wrapper });
  const sockets: Socket[] = [];
  t.after(async () => {
    for (const socket of sockets) socket.destroy();
    await daemon.kill('SIGKILL');
    await upstream.stop();
    rmSync(dataDir, { recursive: true });
  });
  const { api, admin } = await daemon.ready();
  const open = () => readdirSync(`/proc/${daemon.child.pid}/fd`).length;
  const before = open();
  const call = async (path: string, init: RequestInit = {}) =>
    (await fetch(`${api}${path}?api-key=${BOOTSTRAP_KEY}`, { ...init, signal: AbortSignal.timeout(20_000) })).text();
  for (const url of [api, admin]) {
    const { port } = new URL(url);
    for (let i = 0; i < CONNECTIONS; i += 1) {
      const socket = connect(Number(port), '127.0.0.1');
      socket.on('error', () => undefined);
      sockets.push(socket);
    }
    await until(() => sockets.every(({ connecting }) => !connecting), 'all have connected');
    let most = 0;
    for (let round = 0; round < 10; round += 1) {
      most = Math.max(most, open());
      const body = '{"jsonrpc":"2.0","id":1,"method":"getHello"}';
      assert.equal(await call('/', { method: 'POST', body }), '{"jsonrpc":"2.0","result":"hello","id":1}');
      assert.equal(await call('/v0/webhooks'), '[]');
      assert.equal((await fetch(`${admin}/healthz`)).status, 200);
      await sleep(20);
    }
    assert.ok(most > before, 'connections are taken');
    assert.ok(most <= LIMIT - MIN_FREE, `${most} of ${LIMIT} descriptors`);
  }
  assert.equal(daemon.child.exitCode, null);
  await daemon.kill('SIGTERM');
  assert.equal(await daemon.ended, 0);
  // Lines are written once a second, and when the process ends.
  const times = daemon.output().split('leaves room for fewer connections').length - 1;
  assert.equal(times, 1, `it is said once:\n${daemon.output()}`);
});
