/** A project that is renamed, disabled, enabled and deleted: by commands and by the routes of the dashboard, beside a daemon, on both stores. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { sql } from 'kysely';
import WebSocket from 'ws';
import { runCommand, startDaemon } from '../../helpers/daemon.ts';
import { eachStore } from '../../helpers/store.ts';
import { startUpstream } from '../../helpers/upstream.ts';

const TOKEN = 'operator-token-of-the-test';
const ADDRESS = 'MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr';
const WALLET = '86xCnPeV69n6t3DnyGvkKobf9FdN2H9oiVDdaMpo2MMY';
/** Fails loudly when it never comes; how long it takes is not what is tested. */
async function until(what: string, check: () => Promise<boolean>): Promise<void> {
  for (let tries = 0; tries < 600; tries += 1) {
    if (await check()) return;
    await sleep(50);
  }
  assert.fail(`never: ${what}`);
}

eachStore('states of a project', (engine) => {
  test('disabled, its key is refused and its websockets close; enabled it works; deleted, only its usage is left', async (t) => {
    const database = await engine.database(t);
    const upstream = await startUpstream();
    t.after(() => upstream.stop());
    upstream.on('getSlot', { result: '7' });
    const daemon = await startDaemon({
      chain: { rpcUrl: upstream.url },
      store: database.url,
      config: {
        plugins: ['access', 'dashboard', 'proxy', 'wallet', 'webhooks', 'signup'],
        follow: { enabled: false },
        access: { usageFlushMs: 50 },
        webhooks: { allowHttp: true, allowCidrs: ['127.0.0.0/8'] },
        dashboard: { operatorToken: TOKEN },
        signup: { treasury: WALLET, lamports: 1 },
      },
    });
    t.after(() => daemon.stop());
    const command = async (...args: string[]) => await runCommand([...args, '--config', daemon.configFile]);
    const json = async <T>(...args: string[]): Promise<T> => {
      const { code, out, err } = await command(...args, '--json');
      assert.equal(code, 0, err);
      return JSON.parse(out) as T;
    };
    const { id } = await json<{ id: string }>('projects', 'create', '--name', 'before');
    const other = await json<{ id: string }>('projects', 'create', '--name', 'other');
    const { key } = await json<{ key: string }>('keys', 'create', '--project', id);
    const call = async (method = 'POST', path = '/', body: unknown = { jsonrpc: '2.0', id: 1, method: 'getSlot' }) =>
      await fetch(`${daemon.apiUrl}${path}${path.includes('?') ? '&' : '?'}api-key=${key}`, {
        method,
        ...(method === 'GET' ? {} : { body: JSON.stringify(body) }),
      });
    const hook = { webhookURL: 'http://127.0.0.1:9/', webhookType: 'raw', accountAddresses: [ADDRESS] };
    assert.equal((await call('POST', '/v0/webhooks', hook)).status, 200);
    assert.equal((await call()).status, 200);
    await until('the call is counted', async () => {
      const { requests } = await json<{ requests: Record<string, number> }>('projects', 'usage', '--id', id);
      return requests['rpc'] === 1;
    });

    // What the plugins keep for it, beside what it shares with another project.
    const store = await database.open();
    const rows = async (table: string, column: string): Promise<number> => {
      const text = sql`select count(*) as n from ${sql.table(table)} where ${sql.ref(column)} = ${id}`;
      const { rows: found } = await text.execute(store.read);
      return Number((found[0] as { n: number | string }).n);
    };
    await store.write(async (tx) => {
      for (const [number, address] of [ADDRESS, WALLET].entries())
        await sql`insert into wallet_wallets (id, address, requested_at, is_pinned, is_followed, follow_version, is_complete, found)
          values (${number + 1}, ${address}, 1, 0, 1, 1, 0, 0)`.execute(tx.db);
      for (const [wallet, project] of [
        [1, id],
        [2, id],
        [2, other.id],
      ] as const)
        await sql`insert into wallet_projects (wallet, project, requested_at, started_at)
          values (${wallet}, ${project}, 1, 1)`.execute(tx.db);
      await sql`insert into signup_projects (wallet, project_id) values (${WALLET}, ${id})`.execute(tx.db);
    });

    const socket = new WebSocket(`${daemon.wsUrl}/?api-key=${key}`);
    socket.on('error', () => undefined);
    await new Promise((resolve) => socket.once('open', resolve));
    const closed = new Promise<number>((resolve) => socket.once('close', resolve));

    assert.match((await command('projects', 'rename', '--id', id, '--name', 'after')).out, /is named after/);
    assert.equal((await command('projects', 'rename', '--id', id, '--name', '')).code, 64);
    const early = await command('projects', 'delete', '--id', id);
    assert.equal(early.code, 64);
    assert.match(early.err, /ACCESS_PROJECT_ENABLED: only a disabled project/);
    await json('projects', 'disable', '--id', id);
    await until('the key is refused', async () => (await call()).status === 401);
    assert.equal(await closed, 1008);
    assert.match((await command('projects', 'list')).out, new RegExp(`^${id} +unlimited +disabled +.*after$`, 'm'));
    assert.equal((await call('GET', '/v0/webhooks')).status, 401);
    await json('projects', 'enable', '--id', id);
    await until('the key works again', async () => (await call()).status === 200);
    assert.equal(((await (await call('GET', '/v0/webhooks')).json()) as unknown[]).length, 1, 'its data was kept');

    // The same by the dashboard.
    const login = await fetch(`${daemon.adminUrl}/dashboard/api/login`, {
      method: 'POST',
      body: JSON.stringify({ token: TOKEN }),
    });
    const cookie = login.headers.get('set-cookie')?.split(';')[0] ?? '';
    const { csrfToken } = (await login.json()) as { csrfToken: string };
    const ask = async (method: string, path: string, body?: unknown) =>
      await fetch(`${daemon.adminUrl}/dashboard/api${path}`, {
        method,
        headers: { cookie, 'x-csrf-token': csrfToken },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
    await ask('POST', `/projects/${id}/secret`);
    assert.equal((await ask('DELETE', `/projects/${id}`)).status, 409);
    assert.equal((await ask('PATCH', '/projects/nobody', { name: 'x' })).status, 404);
    assert.equal((await ask('PATCH', `/projects/${id}`, { name: 'x'.repeat(200) })).status, 400);
    const changed = await ask('PATCH', `/projects/${id}`, { name: 'third', isDisabled: true });
    assert.deepEqual([changed.status, ((await changed.json()) as { name: string }).name], [200, 'third']);
    await until('the key is refused', async () => (await call()).status === 401);
    const forIt = (method: string, path: string) => ask('POST', `/projects/${id}/webhooks`, { method, path });
    const listed = await forIt('GET', '/v0/webhooks');
    const [{ webhookID }] = (await listed.json()) as [{ webhookID: string }];
    assert.equal((await forIt('DELETE', `/v0/webhooks/${webhookID}`)).status, 409, 'it is only looked at');
    assert.equal((await ask('DELETE', `/projects/${id}`)).status, 200);
    assert.equal((await ask('DELETE', `/projects/${id}`)).status, 404);
    for (const [table, column] of [
      ['api_keys', 'project_id'],
      ['webhooks', 'project_id'],
      ['wallet_projects', 'project'],
      ['signup_projects', 'project_id'],
      ['dashboard_secrets', 'project_id'],
    ] as const)
      assert.equal(await rows(table, column), 0, table);
    const followed = await sql<{ id: number }>`select id from wallet_wallets where is_followed = 1`.execute(store.read);
    assert.deepEqual(followed.rows, [{ id: 2 }], 'another project still uses it');
    assert.equal((await call()).status, 401);

    // Its usage stays; nothing else finds it.
    assert.doesNotMatch((await command('projects', 'list')).out, new RegExp(id));
    assert.match((await command('projects', 'list', '--all')).out, new RegExp(`^${id} +unlimited +deleted `, 'm'));
    const { requests } = await json<{ requests: Record<string, number> }>('projects', 'usage', '--id', id);
    assert.ok((requests['rpc'] ?? 0) >= 2, JSON.stringify(requests));
    for (const args of [
      ['projects', 'enable', '--id', id],
      ['projects', 'delete', '--id', id],
      ['projects', 'grant', '--id', id, '--credits', '1'],
      ['projects', 'add-wallet', '--id', id, '--wallet', WALLET],
      ['keys', 'create', '--project', id],
    ]) {
      const { code, err } = await command(...args);
      assert.equal(code, 64, args.join(' '));
      assert.match(err, /ACCESS_UNKNOWN_PROJECT/);
    }
  });
});
