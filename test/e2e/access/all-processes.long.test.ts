/** Rights that end in one process end what is open in the others, on one PostgreSQL. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import WebSocket from 'ws';
import { type DaemonProcess, runCommand, startDaemonProcess } from '../../helpers/daemon.ts';
import { postgresDatabase } from '../../helpers/store.ts';
import { startUpstream } from '../../helpers/upstream.ts';

const TOKEN = 'operator-token-of-the-test';
const API = '/dashboard/api';

async function logIn({ adminUrl }: DaemonProcess, body: object) {
  const response = await fetch(`${adminUrl}${API}/login`, { method: 'POST', body: JSON.stringify(body) });
  assert.equal(response.status, 200);
  const cookie = response.headers.get('set-cookie')?.split(';')[0] ?? '';
  const { csrfToken } = (await response.json()) as { csrfToken: string };
  const ask = (method: string, path: string) =>
    fetch(`${adminUrl}${API}${path}`, { method, headers: { cookie, 'x-csrf-token': csrfToken } });
  return { ask, status: async () => (await ask('GET', '/session')).status };
}

test('a revoked key and a renewed secret reach every process', { timeout: 120_000 }, async (t) => {
  const upstream = await startUpstream();
  t.after(() => upstream.stop());
  const { url: store } = await postgresDatabase(t);
  const start = async (key?: string) => {
    const daemon = await startDaemonProcess({
      chain: { rpcUrl: upstream.url, wsUrl: upstream.wsUrl },
      store,
      ...(key === undefined ? {} : { key }),
      config: {
        plugins: ['access', 'dashboard', 'proxy'],
        follow: { enabled: false },
        dashboard: { operatorToken: TOKEN },
      },
    });
    t.after(() => daemon.stop());
    return daemon;
  };
  const one = await start();
  const daemons = [one, await start(one.key)];
  const cli = async (...args: string[]) => {
    const { code, out, err } = await runCommand([...args, '--json', '--config', one.configFile]);
    assert.equal(code, 0, err);
    return JSON.parse(out) as Record<string, string>;
  };
  const { projectId: project } = one;
  const { key = '', id = '' } = await cli('keys', 'create', '--project', project);
  const closings = await Promise.all(
    daemons.map(async ({ apiUrl }) => {
      const socket = new WebSocket(`${apiUrl.replace('http', 'ws')}/?api-key=${key}`);
      t.after(() => socket.terminate());
      await once(socket, 'open');
      return { closed: once(socket, 'close') as Promise<[number, Buffer]> };
    }),
  );
  await cli('keys', 'revoke', '--id', id);
  for (const [code, reason] of await Promise.all(closings.map(({ closed }) => closed)))
    assert.deepEqual([code, String(reason)], [1008, 'Invalid API key']);

  const operator = await logIn(one, { token: TOKEN });
  const renew = async () =>
    ((await (await operator.ask('POST', `/projects/${project}/secret`)).json()) as { secret: string }).secret;
  const secret = await renew();
  const owners = await Promise.all(daemons.map((daemon) => logIn(daemon, { project, secret })));
  for (const owner of owners) assert.equal(await owner.status(), 200);
  await renew();
  for (const owner of owners) {
    for (let tries = 0; tries < 200 && (await owner.status()) === 200; tries += 1) await sleep(50);
    assert.equal(await owner.status(), 401);
  }
  assert.equal(await operator.status(), 200);
});
