import assert from 'node:assert/strict';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { type TObject, Type } from '@sinclair/typebox';
import type { CodedError } from '../plugin/plugin.ts';
import { loadConfig } from './load.ts';

const dir = mkdtempSync(join(tmpdir(), 'parhelion-config-'));
let files = 0;
function file(text: string): string {
  const path = join(dir, `${files++}.yaml`);
  writeFileSync(path, text);
  return path;
}

const section: TObject = Type.Object(
  {
    maxWidgets: Type.Integer({ minimum: 1, default: 5, description: 'widgets' }),
    token: Type.String({ default: '', description: 'a secret', secret: true }),
    inner: Type.Object(
      { caFile: Type.Union([Type.String(), Type.Null()], { default: null, description: 'PEM file' }) },
      { additionalProperties: false, default: {} },
    ),
  },
  { additionalProperties: false, default: {} },
);

const load = (text: string | null, env: Record<string, string> = {}) =>
  loadConfig({ file: text === null ? null : file(text), env }, async () => [{ id: 'gadget', config: section }]);

async function problemsOf(work: Promise<unknown>): Promise<string[]> {
  const error = await work.then(
    () => assert.fail('was accepted'),
    (reason: CodedError) => reason,
  );
  assert.equal(error.code, 'CONFIG_INVALID', String(error));
  assert.equal(error.exitCode, 78);
  return error.facts['problems'] as string[];
}

test('an empty start has every default of kernel and plugins', async () => {
  const { values, core } = await load(null);
  assert.equal(core.http.port, 8787);
  assert.equal(core.upstream.local.mode, 'auto');
  assert.deepEqual(core.upstream.devnet.urls, []);
  assert.deepEqual(values['gadget'], { maxWidgets: 5, token: '', inner: { caFile: null } });
});

test('a section without content counts as empty', async () => {
  const { core, values } = await load('http:\ngadget:\n  inner:\n');
  assert.equal(core.http.port, 8787);
  assert.deepEqual(values['gadget'], { maxWidgets: 5, token: '', inner: { caFile: null } });
});

test('all errors come at once, with place, expectation, value and suggestion', async () => {
  const problems = await problemsOf(
    load(
      [
        'http:',
        '  prot: 1',
        '  port: 70000',
        '  bodyLimitBytes: lots',
        'gadgets: {}',
        'gadget:',
        '  maxWidgets: 0',
        '  inner: 3',
        'log:',
        '  format: prety',
      ].join('\n'),
      { PARHELION_HTTP__KEEPALIVETIMEOUTMS: 'x', PARHELION_HTTP__HOTS: 'y' },
    ),
  );
  const expected = [
    'PARHELION_HTTP__HOTS: unknown key, did you mean http.host?',
    'line 2, http.prot: unknown key, did you mean "port"?',
    'line 3, http.port: expected an integer between 0 and 65535, got 70000',
    'line 4, http.bodyLimitBytes: expected an integer of at least 1, got "lots"',
    'PARHELION_HTTP__KEEPALIVETIMEOUTMS (http.keepAliveTimeoutMs): expected an integer of at least 1, got "x"',
    'line 5, gadgets: unknown key, did you mean "gadget"?',
    'line 7, gadget.maxWidgets: expected an integer of at least 1, got 0',
    'line 8, gadget.inner: expected a section, got 3',
    'line 10, log.format: expected "auto", "json" or "pretty", got "prety", did you mean "pretty"?',
  ];
  assert.deepEqual([...problems].sort(), expected.sort());
});

test('inside a union only the branch of the given type reports errors', async () => {
  assert.deepEqual(await problemsOf(load('upstream:\n  urls:\n    - {url: "http://x", maxConcurent: 3}\n')), [
    'line 3, upstream.urls.0.maxConcurent: unknown key, did you mean "maxConcurrent"?',
  ]);
  assert.deepEqual(await problemsOf(load('upstream:\n  urls: [7]\n')), [
    'line 2, upstream.urls.0: expected an http or https address or a section, got an integer',
  ]);
});

test('values of secret keys are in no message', async () => {
  const problems = await problemsOf(
    load('gadget:\n  token: [hunter2]\nupstream:\n  urls: {hunter2: 1}\n  devnet: {urls: [hunter2]}\n', {
      PARHELION_GADGET__INNER: 'hunter2',
      PARHELION_STORE__URL: 'mysql://hunter2',
    }),
  );
  assert.equal(problems.length, 5);
  assert.equal(problems.join('\n').includes('hunter2'), false);
});

test('syntax errors name file, line and column, and no content', async () => {
  const problems = await problemsOf(load('a: [1\nb: "hunter2\n'));
  assert.ok(problems.length >= 1);
  assert.ok(problems.every((problem) => /^line \d+, column \d+: /.test(problem)));
  assert.equal(problems.join('\n').includes('hunter2'), false);
  const path = file('http:\n\tport: 1\n');
  await assert.rejects(
    loadConfig({ file: path, env: {} }, async () => []),
    {
      code: 'CONFIG_INVALID',
      message: `${path} is not valid YAML: line 2, column 1: this line is indented with a tab; use spaces`,
    },
  );
  // Without a name of that kind above it is no value at all.
  assert.match(
    (await problemsOf(load('http:\n  host: *.hunter2.org\n')))[0]!,
    /^line 2, column 9: .*put it in quotes$/,
  );
});

test('environment over file over defaults; flags over all', async () => {
  const path = file('http:\n  port: 1\n  host: 0.0.0.0\nlog: {level: warn}\n');
  const { core } = await loadConfig(
    {
      file: path,
      env: { PARHELION_HTTP__PORT: '2', PARHELION_LOG__LEVEL: 'debug' },
      flags: [{ path: ['log', 'level'], value: 'error', origin: '--log-level' }],
    },
    async () => [],
  );
  assert.deepEqual([core.http.port, core.http.host, core.log.level], [2, '0.0.0.0', 'error']);
});

test('environment names: case, underscores, nesting, scalars, files', async () => {
  const secret = file('s3cret\n');
  const { core, values } = await load(null, {
    PARHELION_DATA_DIR: '/var/lib/p',
    PARHELION_HTTP__BODY_LIMIT_BYTES: '12',
    PARHELION_http__WebsocketPort: '0',
    PARHELION_UPSTREAM__LOCAL__DEMO: 'false',
    PARHELION_UPSTREAM__LOCAL__SEED: '123',
    PARHELION_HTTP__TRUSTED_PROXIES: '["10.0.0.0/8", "::1"]',
    PARHELION_GADGET__TOKEN_FILE: secret,
    PARHELION_GADGET__INNER__CA_FILE: '/etc/ca.pem',
    PARHELION_UNRELATED: 'ignored',
    PARHELION_BOOTSTRAP_KEY: 'not-configuration',
  });
  assert.equal(core.dataDir, '/var/lib/p');
  assert.equal(core.http.bodyLimitBytes, 12);
  assert.equal(core.http.websocketPort, 0);
  assert.equal(core.upstream.local.demo, false);
  assert.equal(core.upstream.local.seed, '123');
  assert.deepEqual(core.http.trustedProxies, ['10.0.0.0/8', '::1']);
  assert.deepEqual(values['gadget'], { maxWidgets: 5, token: 's3cret', inner: { caFile: '/etc/ca.pem' } });
});

test('a key together with its file is refused; so is a missing file', async () => {
  const both = { PARHELION_GADGET__TOKEN: 'a', PARHELION_GADGET__TOKEN_FILE: file('b') };
  assert.deepEqual(await problemsOf(load(null, both)), [
    'PARHELION_GADGET__TOKEN and PARHELION_GADGET__TOKEN_FILE both set gadget.token',
  ]);
  const [problem] = await problemsOf(load(null, { PARHELION_GADGET__TOKEN_FILE: join(dir, 'absent') }));
  assert.match(problem!, /^PARHELION_GADGET__TOKEN_FILE: cannot read the file/);
});

test('SOLANA_RPC_URL sets the upstreams', async () => {
  const { core } = await load('upstream:\n  urls: ["http://file"]\n', { SOLANA_RPC_URL: 'http://a, http://b' });
  assert.deepEqual(core.upstream.urls, ['http://a', 'http://b']);
});

test('an unreadable file is its own error', async () => {
  await assert.rejects(
    loadConfig({ file: join(dir, 'absent.yaml'), env: {} }, async () => []),
    {
      code: 'CONFIG_UNREADABLE',
      exitCode: 78,
    },
  );
});

test('relative plugin paths start at the file; PARHELION_PLUGINS replaces the list', async () => {
  const seen: unknown[] = [];
  const find = async (entries: unknown, baseDir: string) => {
    seen.push(entries, baseDir);
    return [];
  };
  await loadConfig({ file: file('plugins: [./mine, {use: other, enabled: false}]\n'), env: {} }, find);
  assert.deepEqual(seen, [
    [
      { use: './mine', enabled: true },
      { use: 'other', enabled: false },
    ],
    dir,
  ]);
  await loadConfig({ file: null, env: { PARHELION_PLUGINS: '[access]' } }, find);
  assert.deepEqual(seen[2], [{ use: 'access', enabled: true }]);
});

test('a list that is too long is reported with its length', async () => {
  const names = Type.Array(Type.String(), { default: [], maxItems: 2, description: 'names' });
  const config = Type.Object({ names }, { additionalProperties: false, default: {} });
  const long = { file: file('gadget:\n  names: [ a, b, c ]\n'), env: {} };
  assert.deepEqual(await problemsOf(loadConfig(long, async () => [{ id: 'gadget', config }])), [
    'line 2, gadget.names: expected a list of at most 2, got a list of 3',
  ]);
});

test('variables that a plugin reads itself come after the file and before PARHELION_*; their errors and warnings are reported', async () => {
  const environment = (env: Readonly<Record<string, string | undefined>>) => ({
    overrides:
      env['WIDGETS'] === undefined
        ? []
        : [{ path: ['gadget', 'maxWidgets'], value: Number(env['WIDGETS']), origin: 'WIDGETS' }],
    problems: env['BROKEN'] === undefined ? [] : ['BROKEN: is not supported'],
    warnings: env['ODD'] === undefined ? [] : ['ODD is ignored'],
  });
  const loadWith = (env: Record<string, string>) =>
    loadConfig({ file: file('gadget:\n  maxWidgets: 7\n'), env }, async () => [
      { id: 'gadget', config: section, environment },
    ]);
  const widgets = async (env: Record<string, string>) =>
    ((await loadWith(env)).values['gadget'] as { maxWidgets: number }).maxWidgets;
  assert.equal(await widgets({}), 7);
  assert.equal(await widgets({ WIDGETS: '8' }), 8);
  assert.equal(await widgets({ WIDGETS: '8', PARHELION_GADGET__MAX_WIDGETS: '9' }), 9);
  assert.deepEqual((await loadWith({ ODD: '1' })).warnings, ['ODD is ignored']);
  const problems = await problemsOf(loadWith({ BROKEN: '1', WIDGETS: '0' }));
  assert.equal(problems.length, 2);
  assert.match(problems.join(), /BROKEN: is not supported.*WIDGETS \(gadget\.maxWidgets\)/);
});
