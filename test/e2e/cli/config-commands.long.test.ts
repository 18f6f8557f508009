import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { libraryPath } from '../../../src/store/sqlite-connection.ts';
import { cliArguments, runCommand } from '../../helpers/daemon.ts';

const dir = mkdtempSync(join(tmpdir(), 'parhelion-cli-'));
const witness = fileURLToPath(new URL('../../helpers/witness-io.mjs', import.meta.url));
let files = 0;
function config(content: unknown): string {
  const path = join(dir, `config-${files++}.yaml`);
  writeFileSync(path, JSON.stringify(content));
  return path;
}

/** Runs the command line as a process; `env` is all it gets beside PATH. */
function cli(args: readonly string[], env: Record<string, string> = {}) {
  const child = spawnSync(process.execPath, ['--import', witness, ...cliArguments, ...args], {
    cwd: dir,
    env: { PATH: process.env['PATH'], ...env },
    encoding: 'utf8',
  });
  return { code: child.status, out: child.stdout, err: child.stderr };
}

const upstream = { urls: ['http://127.0.0.1:9/secret-path?api-key=hunter2'] };

test('the witness sees sockets, listeners and databases when there are some', () => {
  const script = `
    import net from 'node:net'; import Database from '${libraryPath()}';
    const server = net.createServer().listen(0, () => net.connect(server.address().port).on('connect', () => process.exit()));
    new Database(':memory:');`;
  const seen = spawnSync(process.execPath, ['--import', witness, '--input-type=module', '-e', script], {
    encoding: 'utf8',
  });
  for (const what of ['listen', 'connect', 'database']) assert.match(seen.stderr, new RegExp(`WITNESS ${what}`));
});

test('check-config, list-plugins, dump-config and openapi open no socket, no database and no file in the data folder', async (t) => {
  const taken = createServer().listen(0, '127.0.0.1');
  t.after(() => taken.close());
  await new Promise((resolve) => taken.once('listening', resolve));
  const { port } = taken.address() as AddressInfo;
  const dataDir = join(dir, 'untouched');
  const file = config({ dataDir, upstream, http: { port }, admin: { port: port === 65_535 ? 1 : port + 1 } });
  for (const command of ['check-config', 'list-plugins', 'dump-config', 'openapi']) {
    const { code, err, out } = cli([command, '--config', file]);
    assert.equal(code, 0, `${command}: ${err}`);
    assert.equal(err, '', command);
    assert.equal(out.includes('hunter2') || out.includes('secret-path'), false, command);
  }
  assert.equal(existsSync(dataDir), false);
});

test('check-config tells all errors, for people and as JSON, and exits 78', () => {
  const file = config({ upstream, htp: {}, http: { port: 'x' } });
  const people = cli(['check-config', '--config', file]);
  assert.equal(people.code, 78);
  assert.match(
    people.err,
    /CONFIG_INVALID: .* has 2 errors\n.*htp: unknown key, did you mean "http"\?\n.*http\.port: expected an integer/s,
  );
  const machine = cli(['check-config', '--format', 'json', '--config', file]);
  assert.equal(machine.code, 78);
  const answer = JSON.parse(machine.out) as { ok: boolean; problems: string[] };
  assert.equal(answer.ok, false);
  assert.equal(answer.problems.length, 2);
});

test('a production start without an upstream says what to set', () => {
  for (const [args, env] of [
    [['serve', '--config', config({})], {}],
    [['check-config', '--config', config({})], {}],
    [['serve'], { NODE_ENV: 'production' }],
    [['check-config'], { PARHELION_UPSTREAM__LOCAL__MODE: 'off' }],
  ] as const) {
    const { code, err, out } = cli(args, env);
    assert.equal(code, 78, err);
    if (args[0] === 'serve') {
      // Whoever reads the log reads this as well.
      const last = JSON.parse(out.trim().split('\n').at(-1) ?? '') as Record<string, unknown>;
      assert.deepEqual([last['level'], last['code'], last['exitCode'], err], ['fatal', 'CONFIG_INVALID', 78, '']);
      assert.match(String(last['msg']), /^no upstream is configured: set upstream\.urls/);
    } else assert.match(err, /CONFIG_INVALID: no upstream is configured: set upstream\.urls \(or SOLANA_RPC_URL\)/);
    assert.equal(err.includes('WITNESS'), false);
  }
});

test('keys that counted slots are still read, and a warning names the key that counts time', async () => {
  const gapBackfill = { maxLagSlots: 30 };
  const old = {
    follow: { maxCatchupSlots: 1_000, maxReadyLagSlots: 50, unhealthyLagSlots: 40, gapBackfill },
    webhooks: { maxLagSlots: 9 },
  };
  const file = config({ upstream, ...old });
  const people = await runCommand(['check-config', '--config', file]);
  assert.equal(people.code, 0, people.err);
  for (const pattern of [
    /line \d+, follow\.maxCatchupSlots is an old key: set follow\.maxCatchupHours/,
    /follow\.maxReadyLagSlots is an old key: set follow\.maxReadyLagSeconds/,
    /follow\.unhealthyLagSlots is an old key: set follow\.unhealthyLagSeconds/,
    /follow\.gapBackfill\.maxLagSlots is an old key: set follow\.gapBackfill\.maxLagSeconds/,
    /webhooks\.maxLagSlots is an old key: set webhooks\.maxLagSeconds/,
  ])
    assert.match(people.err, pattern);
  const env = { PARHELION_FOLLOW__MAX_READY_LAG_SLOTS: '7' };
  const fresh = config({ upstream, follow: { maxCatchupHours: 0.5 } });
  const machine = await runCommand(['check-config', '--json', '--config', fresh], { env });
  const { warnings } = JSON.parse(machine.out) as { warnings: string[] };
  assert.deepEqual(warnings, [
    'PARHELION_FOLLOW__MAX_READY_LAG_SLOTS (follow.maxReadyLagSlots) is an old key: set follow.maxReadyLagSeconds',
  ]);
  const written = await runCommand(['dump-config', '--format', 'json', '--config', file]);
  const { follow } = JSON.parse(written.out) as { follow: Record<string, unknown> };
  assert.deepEqual(
    [follow['maxCatchupSlots'], follow['maxReadyLagSlots'], follow['maxReadyLagSeconds']],
    [1_000, 50, 60],
  );
});

test('usage errors exit 64, help and version 0', async () => {
  assert.equal((await runCommand(['frobnicate'])).code, 64);
  assert.equal((await runCommand(['serve', '--frobnicate'])).code, 64);
  assert.equal((await runCommand(['keys', 'create'])).code, 64);
  assert.equal((await runCommand(['dump-config', '--config'])).code, 64);
  const help = await runCommand(['--help']);
  assert.equal(help.code, 0);
  for (const word of ['serve', 'check-config', 'projects', 'keys']) assert.match(help.out, new RegExp(`\\b${word}\\b`));
  const version = await runCommand(['--version']);
  assert.deepEqual([version.code, version.out], [0, '0.1.0']);
});

test('dump-config shows what is in force and hides secrets', async () => {
  const file = config({ upstream, store: { url: 'postgres://user:hunter2@db/x' }, http: { port: 1 } });
  const env = { PARHELION_HTTP__PORT: '2' };
  const yaml = await runCommand(['dump-config', '--config', file], { env });
  assert.equal(yaml.code, 0, yaml.err);
  assert.match(yaml.out, /port: 2\n/);
  assert.equal(yaml.out.includes('hunter2'), false);
  const json = JSON.parse((await runCommand(['dump-config', '--format', 'json', '--config', file], { env })).out) as {
    http: { port: number };
    store: { url: string };
    upstream: { urls: string[] };
  };
  assert.equal(json.http.port, 2);
  assert.equal(json.store.url, 'postgres://db/***');
  assert.deepEqual(json.upstream.urls, ['http://127.0.0.1:9/***']);
});

test('init writes a short file, once, for the owner alone; with an upstream it is a valid configuration', async () => {
  const file = join(dir, 'new', 'folder', 'fresh.yaml');
  assert.equal((await runCommand(['init', '--output', file])).code, 0);
  assert.equal(statSync(file).mode & 0o777, 0o600);
  assert.equal((await runCommand(['init', '--output', file])).code, 64);
  assert.equal((await runCommand(['init', '--output', file, '--force'])).code, 0);
  assert.equal((await runCommand(['check-config', '--config', file])).code, 78);
  const text = readFileSync(file, 'utf8');
  assert.ok(text.split('\n').length < 40, text);
  const [, reference = ''] = /All keys with their defaults: (\S+)/.exec(text) ?? [];
  assert.match(readFileSync(reference, 'utf8'), /^webhooks:/m);
  writeFileSync(file, text.replace('urls: []', 'urls: ["http://127.0.0.1:8899"]'));
  const checked = await runCommand(['check-config', '--config', file]);
  assert.equal(checked.code, 0, checked.err);
});

test('a database that cannot be reached is temporary: exit 75', async () => {
  const file = config({ upstream, store: { url: 'postgres://user:hunter2@127.0.0.1:9/x' } });
  const { code, err } = await runCommand(['migrate', '--config', file]);
  assert.equal(code, 75, err);
  assert.match(err, /STORE_UNREACHABLE/);
  assert.equal(err.includes('hunter2'), false);
});

test('migrate: a dry run changes nothing, a run applies, a second finds nothing to do; manual mode waits for it', async () => {
  const dataDir = join(dir, 'migrated');
  const file = config({ dataDir, upstream, store: { migrate: 'manual' } });
  const steps = async (...more: string[]) => {
    const { code, out, err } = await runCommand(['migrate', '--json', '--config', file, ...more]);
    assert.equal(code, 0, err);
    return (JSON.parse(out) as { steps: { scope: string }[] }).steps;
  };
  const planned = await steps('--dry-run');
  assert.ok(planned.some(({ scope }) => scope === 'access'));
  const waiting = await runCommand(['projects', 'list', '--config', file]);
  assert.equal(waiting.code, 78);
  assert.match(waiting.err, /STORE_MISSING: there is no database .*parhelion\.db/);
  assert.deepEqual(await steps(), planned);
  assert.deepEqual(await steps(), []);
  assert.equal((await runCommand(['projects', 'list', '--config', file])).code, 0);
  assert.ok(readdirSync(dataDir).includes('parhelion.db'));
});

test('status and healthcheck without a daemon: exit 75', async () => {
  const file = config({ dataDir: join(dir, 'nobody'), upstream });
  for (const command of ['status', 'healthcheck']) {
    const { code, err } = await runCommand([command, '--config', file]);
    assert.equal(code, 75);
    assert.match(err, /no daemon runs/);
  }
});
