import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { openSqliteStore } from '../../../src/store/sqlite.ts';
import { cliArguments, runCommand, startDaemon, startDaemonProcess } from '../../helpers/daemon.ts';
import { startHttpServer, type TestServer } from '../../helpers/http-server.ts';

const plugins = ['access', 'proxy', 'sender'];

function temporary(t: { after(fn: () => void): void }): string {
  const dir = mkdtempSync(join(tmpdir(), 'parhelion-serve-'));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

async function eventually(what: string, ask: () => Promise<boolean>): Promise<void> {
  for (let tries = 0; tries < 200; tries++) {
    if (await ask()) return;
    await sleep(50);
  }
  assert.fail(`never: ${what}`);
}

const rpc = async (apiUrl: string, key: string, method = 'getGenesisHash') =>
  await fetch(`${apiUrl}/?api-key=${key}`, { method: 'POST', body: JSON.stringify({ jsonrpc: '2.0', id: 1, method }) });

/** An upstream that knows little more than which chain it serves. */
async function startNode(genesisHash: string, port = 0): Promise<TestServer & { readonly rpcUrl: string }> {
  const results: Record<string, unknown> = { getGenesisHash: genesisHash, getSlot: 5 };
  const server = await startHttpServer((body, request, response) => {
    if (request.method !== 'POST' || body.length === 0) return void response.writeHead(404).end();
    const { id, method } = JSON.parse(body.toString()) as { id: unknown; method: string };
    const result = results[method];
    const answer = result === undefined ? { error: { code: -32601, message: 'Method not found' } } : { result };
    response.setHeader('content-type', 'application/json').end(JSON.stringify({ jsonrpc: '2.0', id, ...answer }));
  }, port);
  return { ...server, rpcUrl: server.url };
}

test('a process: listens, tells its addresses, answers, ends on SIGTERM with 0 and leaves nothing', async (t) => {
  const dataDir = temporary(t);
  const node = await startNode('GenesisA');
  t.after(() => node.close());
  const daemon = await startDaemonProcess({ dataDir, chain: node, config: { plugins, follow: { enabled: false } } });
  t.after(() => daemon.kill());
  assert.equal(await (await fetch(`${daemon.apiUrl}/ping`)).text(), 'ok');
  assert.deepEqual(await (await rpc(daemon.apiUrl, daemon.key)).json(), { jsonrpc: '2.0', id: 1, result: 'GenesisA' });
  assert.equal((await rpc(daemon.apiUrl, 'wrong')).status, 401);

  const status = await runCommand(['status', '--json', '--config', daemon.configFile]);
  assert.equal(status.code, 0, status.err);
  const told = JSON.parse(status.out) as Record<string, unknown>;
  assert.deepEqual(
    [told['api'], told['websocket'], told['admin'], told['pid'], told['ready']],
    [daemon.apiUrl, daemon.wsUrl, daemon.adminUrl, daemon.child.pid, true],
  );
  assert.equal((await runCommand(['healthcheck', '--ready', '--config', daemon.configFile])).code, 0);
  const again = [...cliArguments, 'serve', '--config', daemon.configFile];
  const second = spawnSync(process.execPath, again, { encoding: 'utf8' });
  assert.equal(second.status, 75, second.stderr);
  assert.match(second.stdout + second.stderr, new RegExp(`DAEMON_RUNNING.*process ${daemon.child.pid}, http`));
  const metrics = await (await fetch(`${daemon.adminUrl}/metrics`)).text();
  assert.match(metrics, /parhelion_chain_info\{chain="main",kind="rpc"\} 1/);

  assert.equal(await daemon.stop(), 0);
  assert.equal(existsSync(join(dataDir, 'run.json')), false);
  await assert.rejects(fetch(`${daemon.apiUrl}/ping`));
  assert.equal(daemon.output().includes(daemon.key), false, 'the key is in the log');
  assert.equal(daemon.output().includes('stack'), false, daemon.output());
});

test('the file of a killed process counts for nothing, and the store opens again with its keys', async (t) => {
  const dataDir = temporary(t);
  const first = await startDaemonProcess({ dataDir, config: { plugins } });
  await first.kill();
  assert.ok(existsSync(join(dataDir, 'run.json')));
  assert.equal((await runCommand(['status', '--config', first.configFile])).code, 75);
  const second = await startDaemonProcess({ dataDir, key: first.key, config: { plugins } });
  t.after(() => second.stop());
  assert.equal(second.projectId, first.projectId);
  assert.notEqual((await rpc(second.apiUrl, first.key)).status, 401);
});

test('keys made and revoked beside a running daemon count at once; names and plans are checked', async (t) => {
  const daemon = await startDaemon({ config: { plugins } });
  t.after(() => daemon.stop());
  const run = async (...args: string[]) => await runCommand([...args, '--config', daemon.configFile]);
  const json = async (...args: string[]) => {
    const { code, out, err } = await run(...args, '--json');
    assert.equal(code, 0, err);
    return JSON.parse(out) as Record<string, string>;
  };
  const project = await json('projects', 'create', '--name', 'second', '--plan', 'free');
  const made = await json('keys', 'create', '--project', project['id']!);
  assert.match(made['key']!, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  assert.notEqual((await rpc(daemon.apiUrl, made['key']!)).status, 401);
  const listed = await run('keys', 'list', '--json', '--project', project['id']!);
  assert.equal(listed.out.includes(made['key']!), false);
  const [row] = JSON.parse(listed.out) as { id: string; prefix: string; state: string }[];
  assert.deepEqual([row!.prefix, row!.state], [made['key']!.slice(0, 8), 'active']);

  assert.equal((await json('keys', 'revoke', '--id', row!.id))['revoked'], true);
  await eventually('the revoked key is refused', async () => (await rpc(daemon.apiUrl, made['key']!)).status === 401);
  assert.equal((await json('keys', 'revoke', '--id', row!.id))['revoked'], false);
  for (const args of [
    ['projects', 'create', '--name', 'x', '--plan', 'platinum'],
    ['projects', 'create', '--name', ''],
    ['keys', 'create', '--project', 'nobody'],
    ['keys', 'revoke', '--id', 'nothing'],
  ]) {
    const refused = await run(...args);
    assert.equal(refused.code, 64, refused.err);
    assert.match(refused.err, /ACCESS_/);
  }
});

test('SIGHUP: what can change does, what needs a restart is named, and a bad file changes nothing', async (t) => {
  const daemon = await startDaemonProcess({ config: { plugins, log: { level: 'info', format: 'json' } } });
  t.after(() => daemon.stop());
  const before = JSON.parse(readFileSync(daemon.configFile, 'utf8')) as Record<string, object>;
  const reload = async (text: string, marker: RegExp) => {
    const seen = daemon.output().length;
    writeFileSync(daemon.configFile, text);
    daemon.child.kill('SIGHUP');
    await eventually(String(marker), async () => marker.test(daemon.output().slice(seen)));
  };
  const success = async () =>
    /^parhelion_config_reload_success (\d)/m.exec(await (await fetch(`${daemon.adminUrl}/metrics`)).text())?.[1];
  assert.equal(await success(), '1');
  await reload('http: [', /configuration not reloaded.*/);
  assert.equal(await success(), '0');
  const call = async () => {
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'getHealth' });
    const headers = { 'x-api-key': daemon.key };
    return (await (await fetch(daemon.apiUrl, { method: 'POST', headers, body })).json()) as {
      error?: { code: number };
    };
  };
  assert.notEqual((await call()).error?.code, -32_601);
  const http = { ...before['http'], bodyLimitBytes: 10, targetLimitBytes: 12_345 };
  const access = { ...before['access'], usageFlushMs: 1_234 };
  const mixed = { ...before, http, access, admin: { ...before['admin'], allowedHosts: ['ops.example'] } };
  await reload(
    JSON.stringify(mixed),
    /"changed":\["http\.bodyLimitBytes","admin\.allowedHosts"\],"restart":\["http\.targetLimitBytes","access\.usageFlushMs"\]/,
  );
  assert.equal(await success(), '1');
  const waiting = async () => await (await fetch(`${daemon.adminUrl}/metrics`)).text();
  assert.match(await waiting(), /^parhelion_config_restart_keys 2$/m);
  const large = await fetch(daemon.apiUrl, {
    method: 'POST',
    headers: { 'x-api-key': daemon.key },
    body: 'x'.repeat(11),
  });
  assert.equal(large.status, 413);
  await large.text();
  await reload(JSON.stringify({ ...before, rpc: { denyMethods: ['getHealth'] } }), /"configuration reloaded"/);
  assert.equal((await call()).error?.code, -32_601, 'the body is taken again, and the method is denied');
  assert.match(await waiting(), /^parhelion_config_restart_keys 0$/m);
  assert.equal((await fetch(`${daemon.apiUrl}/docs`)).status, 200);
  const command = async () => await runCommand(['reload', '--json', '--config', daemon.configFile]);
  writeFileSync(daemon.configFile, JSON.stringify(mixed));
  const { code, out, err } = await command();
  assert.equal(code, 0, err);
  const [report] = (JSON.parse(out) as { processes: Record<string, unknown>[] }).processes;
  assert.deepEqual(report?.['changed'], ['http.bodyLimitBytes', 'admin.allowedHosts', 'rpc.denyMethods']);
  assert.deepEqual(report?.['restart'], ['http.targetLimitBytes', 'access.usageFlushMs']);
  writeFileSync(daemon.configFile, JSON.stringify({ ...before, rpc: { denyMethods: ['getHealth'] } }));
  const words = await runCommand(['reload', '--config', daemon.configFile]);
  assert.match(words.out, /in effect: http\.bodyLimitBytes, admin\.allowedHosts, rpc\.denyMethods\n?$/);
  await reload('http: [', /configuration not reloaded.*/);
  assert.equal((await call()).error?.code, -32_601);
  assert.equal(await success(), '0');
  await reload(JSON.stringify(before), /configuration reloaded/);
  assert.notEqual((await call()).error?.code, -32_601);
  assert.equal(await success(), '1');
  await reload(JSON.stringify({ ...before, log: { level: 'error', format: 'json' } }), /$/);
  await eventually('the new level', async () => {
    const seen = daemon.output().length;
    await fetch(`${daemon.apiUrl}/docs`);
    await sleep(100);
    return daemon.output().length === seen;
  });
});

test('a store that belongs to another chain is refused with 78', async (t) => {
  const dataDir = temporary(t);
  const [a, b] = [await startNode('GenesisA'), await startNode('GenesisB')];
  t.after(() => Promise.all([a.close(), b.close()]));
  const config = { plugins, follow: { enabled: false } };
  await (await startDaemon({ dataDir, chain: a, config })).stop();
  await assert.rejects(startDaemon({ dataDir, chain: b, config }), { code: 'STORE_WRONG_CHAIN', exitCode: 78 });
  const again = await startDaemon({ dataDir, chain: a, config, key: 'unused' });
  await again.stop();
});

test('a silent upstream at start delays nothing; when it comes and is of another chain, it is out of service', async (t) => {
  const dataDir = temporary(t);
  const config = { plugins, follow: { enabled: false } };
  const a = await startNode('GenesisA');
  await (await startDaemon({ dataDir, chain: a, config, key: 'first-key' })).stop();
  await a.close();
  const daemon = await startDaemon({ dataDir, chain: a, config, key: 'first-key' });
  t.after(() => daemon.stop());
  assert.equal((await fetch(`${daemon.apiUrl}/docs`)).status, 200);
  const b = await startNode('GenesisB', a.port);
  t.after(() => b.close());
  let answer = '';
  for (let tries = 0; tries < 600 && !answer.includes('UPSTREAM_OTHER_CHAIN'); tries += 1) {
    await sleep(50);
    const ready = await fetch(`${daemon.adminUrl}/readyz`);
    assert.equal(ready.status, 503);
    answer = await ready.text();
  }
  assert.match(answer, /UPSTREAM_OTHER_CHAIN/);
  const body = '{"jsonrpc":"2.0","id":1,"method":"getSlot"}';
  const call = await fetch(`${daemon.apiUrl}/?api-key=${daemon.key}`, { method: 'POST', body });
  assert.equal(((await call.json()) as { error: { code: number } }).error.code, -32002);
});

test('a store that a newer version migrated is refused with 57', async (t) => {
  const dataDir = temporary(t);
  const daemon = await startDaemon({ dataDir, config: { plugins } });
  await daemon.stop();
  const store = openSqliteStore({ path: join(dataDir, 'parhelion.db'), busyTimeoutMs: 1_000 });
  const steps = await store.read
    .selectFrom('parhelion_migrations')
    .select('version')
    .where('scope', '=', 'access')
    .execute();
  await store.write(async (tx) => {
    await tx.insertMany(
      'parhelion_migrations',
      ['scope', 'version', 'name', 'breaking', 'applied_at'],
      [['access', steps.length + 1, 'from the future', 1, null]],
    );
  });
  await store.close();
  const { code, err } = await runCommand(['projects', 'list', '--config', daemon.configFile]);
  assert.equal(code, 57, err);
});

test('a taken port ends the start, closes everything again and names the port', async (t) => {
  const first = await startDaemon({ config: { plugins } });
  t.after(() => first.stop());
  const port = Number(new URL(first.apiUrl).port);
  await assert.rejects(startDaemon({ config: { plugins, http: { port } } }), { code: 'HTTP_PORT_TAKEN' });
});
