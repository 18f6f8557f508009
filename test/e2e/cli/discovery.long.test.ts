/** Which configuration a command uses, where its paths lead, and what it refuses in it. */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  existsSync,
  lchownSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { cliArguments, runCommand } from '../../helpers/daemon.ts';

const root = mkdtempSync(join(tmpdir(), 'parhelion-discovery-'));
after(() => rmSync(root, { recursive: true, force: true }));
const upstream = { urls: ['http://127.0.0.1:9'] };
const plugins = ['access'];

function folder(name: string, config?: Readonly<Record<string, unknown>>): string {
  const path = join(root, name);
  mkdirSync(path);
  if (config !== undefined)
    writeFileSync(join(path, 'parhelion.yaml'), JSON.stringify({ upstream, plugins, ...config }));
  return path;
}

interface Dumped {
  readonly dataDir: string;
  readonly store: { readonly url: string };
  readonly http: { readonly tls: { readonly certFile: string | null } };
  readonly access: { readonly plansFile: string | null };
  readonly upstream: { readonly urls: readonly string[] };
}

/** The effective configuration of a command that is run in `cwd`. */
async function dump(cwd: string, args: readonly string[] = [], env: Record<string, string | undefined> = {}) {
  const given = { PARHELION_CONFIG: undefined, ...env };
  const { code, out, err } = await runCommand(['dump-config', '--json', ...args], { cwd, env: given });
  assert.equal(code, 0, err);
  return JSON.parse(out) as Dumped;
}

test('the flag, then the variable, then the file of the working directory; paths count from the folder of the file', async () => {
  const paths = {
    dataDir: './data',
    store: { url: 'sqlite:db/x.db' },
    access: { plansFile: 'plans.yaml' },
    http: { tls: { certFile: '../cert.pem', keyFile: '/key.pem' } },
  };
  const [one, two] = [folder('one', paths), folder('two', { dataDir: 'there' })];
  const here = await dump(one);
  assert.deepEqual(
    [here.dataDir, here.store.url, here.access.plansFile, here.http.tls.certFile],
    [join(one, 'data'), `sqlite:${join(one, 'db/x.db')}`, join(one, 'plans.yaml'), join(root, 'cert.pem')],
  );
  const variable = { PARHELION_CONFIG: join(two, 'parhelion.yaml') };
  assert.equal((await dump(one, [], variable)).dataDir, join(two, 'there'));
  assert.equal((await dump(two, ['--config', '../one/parhelion.yaml'], variable)).dataDir, join(one, 'data'));
  assert.equal((await dump(one, [], { PARHELION_CONFIG: '' })).dataDir, join(one, 'data'), 'without a file: from here');
  assert.equal((await dump(one, ['--data-dir', 'flag'])).dataDir, join(one, 'flag'));
  const env = { PARHELION_DATA_DIR: 'variable', PARHELION_UPSTREAM__URLS: 'http://127.0.0.1:1 http://127.0.0.1:2' };
  const overridden = await dump(root, ['--config', 'one/parhelion.yaml'], env);
  assert.deepEqual([overridden.dataDir, overridden.upstream.urls.length], [join(one, 'variable'), 2]);
});

test('a file that everybody may write, or that another user left there, is not used unasked', async () => {
  const dir = folder('foreign', {});
  const file = join(dir, 'parhelion.yaml');
  const refused = async () => {
    const { code, err } = await runCommand(['list-plugins'], {
      cwd: dir,
      env: { PARHELION_CONFIG: undefined },
    });
    assert.deepEqual([code, /^parhelion: CONFIG_UNREADABLE: .*belongs to another user/.test(err)], [78, true], err);
  };
  chmodSync(file, 0o666);
  await refused();
  chmodSync(file, 0o644);
  // Everybody could put packages beside the file.
  chmodSync(dir, 0o1777);
  await refused();
  chmodSync(dir, 0o755);
  if (process.getuid?.() === 0) {
    chownSync(file, 65_534, 65_534);
    await refused();
    // A link of somebody else to a good file.
    renameSync(file, join(root, 'good.yaml'));
    chownSync(join(root, 'good.yaml'), 0, 0);
    symlinkSync(join(root, 'good.yaml'), file);
    assert.equal((await runCommand(['list-plugins'], { cwd: dir, env: { PARHELION_CONFIG: undefined } })).code, 0);
    lchownSync(file, 65_534, 65_534);
    await refused();
  }
  assert.equal((await runCommand(['list-plugins', '--config', file])).code, 0);
});

test('from another folder a command works on the same data; with the wrong one it names the place and makes nothing', async () => {
  const [there, elsewhere] = [folder('there', { dataDir: './data' }), folder('elsewhere')];
  const config = ['--config', join(there, 'parhelion.yaml')];
  const list = () => runCommand(['projects', 'list', ...config], { cwd: elsewhere });
  const missing = await list();
  assert.equal(missing.code, 78);
  assert.ok(missing.err.includes(join(there, 'data', 'parhelion.db')), missing.err);
  assert.equal((await runCommand(['migrate', ...config], { cwd: elsewhere })).code, 0);
  assert.equal((await list()).out, 'no projects');
  assert.deepEqual([existsSync(join(there, 'data')), existsSync(join(elsewhere, 'data'))], [true, false]);
});

test('files restored by root belong to the owner of the data folder', {
  skip: process.getuid?.() !== 0 && 'not root',
}, async () => {
  const dir = folder('restored', { dataDir: './data' });
  const config = ['--config', join(dir, 'parhelion.yaml')];
  assert.equal((await runCommand(['migrate', ...config])).code, 0);
  const backup = join(dir, 'backup.db');
  assert.equal((await runCommand(['backup', '--output', backup, ...config])).code, 0);
  rmSync(join(dir, 'data'), { recursive: true });
  mkdirSync(join(dir, 'data'), { mode: 0o700 });
  chownSync(join(dir, 'data'), 65_534, 65_533);
  const { code, err } = await runCommand(['restore', '--input', backup, ...config]);
  assert.equal(code, 0, err);
  const { uid, gid, mode } = statSync(join(dir, 'data', 'parhelion.db'));
  assert.deepEqual([uid, gid, mode & 0o777], [65_534, 65_533, 0o600]);
});

const inFile = join(root, 'a-file');
writeFileSync(inFile, '');

/** Each configuration, and what `check-config` says of it; a start refuses it with the same text. */
const REFUSED: readonly [config: Record<string, unknown>, said: RegExp][] = [
  [{ http: { port: 9000 }, admin: { port: 9000 } }, /line 1, admin\.port: 9000 is http\.port too: choose another port/],
  [{ http: { port: 9000, websocketPort: 9000 } }, /line 1, http\.websocketPort: 9000 is http\.port too/],
  [{ http: { host: 'not a host!' } }, /line 1, http\.host: expected an IP address or a host name, got "not a host!"/],
  [{ http: [1, 2] }, /line 1, http: expected a section, got a list of 2$/],
  [{ dataDir: join(inFile, 'data') }, /line 1, dataDir: ".*a-file" is not a folder/],
  [{ dataDir: inFile }, /line 1, dataDir: ".*a-file" is not a folder: name one/],
  [{ dataDir: '/proc/nope' }, /line 1, dataDir: cannot write to "\/(proc)?" \(E[A-Z]+\): name a folder/],
  [{ access: { plansFile: '/nope.yaml' } }, /line 1, access\.plansFile: cannot read "\/nope\.yaml" \(ENOENT\)/],
  [
    { access: { defaultPlan: 'gold' } },
    /ACCESS_UNKNOWN_PLAN: line 1, access\.defaultPlan: there is no plan "gold"; the plans are .*free/,
  ],
  [
    { access: { anonymous: { projectId: 'nope' } } },
    /line 1, access\.anonymous\.projectId: expected an id like [0-9a-f-]{36} or null, got "nope"/,
  ],
  [
    { wallet: { identity: { files: ['/nope.jsonl'] } } },
    /line 1, wallet\.identity\.files\.0: cannot read "\/nope\.jsonl"/,
  ],
  [{ prices: { source: 'static', file: '/nope.json' } }, /line 1, prices\.file: cannot read "\/nope\.json"/],
  [
    { wallet: { follow: ['notanaddress'] } },
    /wallet\.follow\.0: expected an address \(base58 of 32 bytes\), got "notanaddress"/,
  ],
  [
    { dashboard: { operatorToken: 'short' } },
    /expected text of 16 to 512 characters or null, got "\*\*\*" \(5 characters\)/,
  ],
];

test('check-config refuses what cannot start, with line, value and what is expected', async () => {
  for (const [config, said] of REFUSED) {
    const file = join(root, 'refused.yaml');
    writeFileSync(file, JSON.stringify({ upstream, plugins: ['access', 'prices', 'wallet', 'dashboard'], ...config }));
    const { code, err } = await runCommand(['check-config', '--config', file]);
    assert.equal(code, 78, `${JSON.stringify(config)}: ${err}`);
    assert.match(err, said);
    assert.ok(!/got text|short/.test(err), err);
  }
});

const SETPRIV = '/usr/bin/setpriv';

test('check-config refuses a data folder that the user of the daemon may not write', {
  skip: process.getuid?.() === 0 && !existsSync(SETPRIV) && 'root without setpriv',
}, () => {
  const parent = folder('read-only');
  const file = join(root, 'read-only.yaml');
  writeFileSync(file, JSON.stringify({ upstream, plugins, dataDir: join(parent, 'data') }));
  const check = (): { readonly status: number | null; readonly stderr: string } => {
    const command = [process.execPath, ...cliArguments, 'check-config', '--config', file];
    // Rights do not bind root unless it gives up that capability.
    const asRoot = [SETPRIV, '--bounding-set', '-dac_override', ...command];
    const [program = '', ...rest] = process.getuid?.() === 0 ? asRoot : command;
    return spawnSync(program, rest, { encoding: 'utf8' });
  };
  const writable = check();
  assert.equal(writable.status, 0, writable.stderr);
  chmodSync(parent, 0o555);
  const refused = check();
  assert.equal(refused.status, 78, refused.stderr);
  assert.match(
    refused.stderr,
    /line 1, dataDir: cannot write to ".*read-only" \(EACCES\): name a folder that belongs to/,
  );
  assert.equal(existsSync(join(parent, 'data')), false);
});

test('a start refuses them too, with the same text', async () => {
  for (const [config, said] of [REFUSED[0]!, REFUSED[6]!]) {
    const file = join(root, 'start.yaml');
    const own = { upstream, plugins: ['access'], log: { format: 'pretty' }, http: { port: 0 }, admin: { port: 0 } };
    writeFileSync(file, JSON.stringify({ ...own, dataDir: join(root, 'start'), ...config }));
    const { code, err } = await runCommand(['serve', '--role', 'api', '--config', file]);
    assert.equal(code, 78, err);
    if (err !== '') assert.match(err, said);
    assert.equal(existsSync(join(root, 'start', 'parhelion.db')), false);
  }
});

let odd = 0;

test('a plugin that returns its parts, or registers a route without answers, is refused by name', async () => {
  for (const [body, said] of [
    ['return { route: [] };', /plugin odd: provision returned "route"; .* registers its parts through the context/],
    ["return 'routes';", /plugin odd: provision returned a value of the type string; /],
    [
      "http.route({ method: 'GET', path: 'x', summary: 's', tag: 't', auth: 'none', errors: 'plain', handler() {} });",
      /plugin odd: the route GET x has a wrong path: it must begin with \//,
    ],
    [
      "http.route({ method: 'GET', path: '/x', summary: 's', tag: 't', auth: 'none', errors: 'plain', handler() {} });",
      /plugin odd: the route GET \/x has no replies: it needs a schema per status/,
    ],
    ['rpc.method({});', /plugin odd: the JSON-RPC method number 1 has no name/],
  ] as const) {
    const entry = join(root, `odd-${odd++}.mjs`);
    writeFileSync(
      entry,
      `export default { id: 'odd', apiVersion: 1, summary: 's', config: { type: 'object', properties: {}, additionalProperties: false }, provision({ http, rpc }) { ${body} } };`,
    );
    const file = join(root, 'odd.yaml');
    writeFileSync(file, JSON.stringify({ upstream, plugins: ['access', entry] }));
    const { code, err } = await runCommand(['check-config', '--config', file]);
    assert.equal(code, 78, err);
    assert.match(err, said);
  }
});

test('help of a command by its words; completion and manual page know every command', async () => {
  assert.match((await runCommand(['help', 'keys', 'create'])).out, /^Usage: parhelion keys create /);
  const man = await runCommand(['man']);
  for (const words of ['serve', 'keys create', 'webhooks delete']) assert.ok(man.out.includes(`.SS ${words}`), words);
  assert.ok(!man.out.includes('.SS man'));
  const groff = spawnSync('groff', ['-ww', '-man', '-Tutf8'], { input: man.out, encoding: 'utf8' });
  if (groff.status !== null) assert.deepEqual([groff.status, groff.stderr], [0, '']);
  for (const shell of ['zsh', 'fish']) {
    const script = await runCommand(['completion', shell]);
    assert.ok(script.out.includes('keys create') && script.out.includes('allow-origin'), shell);
    if (spawnSync(shell, ['--version']).status === 0)
      assert.equal(spawnSync(shell, ['-n'], { input: script.out }).status, 0, shell);
  }
  assert.equal((await runCommand(['completion', 'tcsh'])).code, 64);
  const bash = (await runCommand(['completion', 'bash'])).out;
  const complete = (...words: string[]) => {
    const list = words.map((word) => `'${word}'`).join(' ');
    const run = `COMP_WORDS=(${list}); COMP_CWORD=${words.length - 1}; _parhelion; printf '%s\\n' "\${COMPREPLY[@]}"`;
    return spawnSync('bash', ['-c', `${bash}\n${run}`], { encoding: 'utf8' })
      .stdout.trim()
      .split('\n');
  };
  assert.deepEqual(complete('parhelion', 'stat'), ['status']);
  assert.deepEqual(complete('parhelion', 'keys', 'cr'), ['create']);
  assert.ok(complete('parhelion', 'keys', 'create', '--name', 'list', '--pro').includes('--project'));
  assert.deepEqual(complete('parhelion', 'dump-config', '--format', ''), ['yaml', 'json']);
  assert.deepEqual(complete('parhelion', 'ledger', 'export', '--format', ''), ['car', 'parquet']);
  assert.ok(complete('parhelion', 'ledger', 'export', '--config', '').length > 1);
});

const noScript =
  spawnSync('script', ['--version']).status === 0 ? false : 'there is no program `script` (util-linux) here';

test('on a terminal the log has one line per event, and the addresses come last', { skip: noScript }, async (t) => {
  const dir = folder('terminal', { http: { port: 0 }, admin: { port: 0 }, plugins: ['access', 'proxy'] });
  const quoted = [process.execPath, ...cliArguments, 'serve'].map((word) => `'${word}'`).join(' ');
  // Ctrl-C goes to all of the terminal's processes; a shell that stayed would tell its own end.
  const words = `exec ${quoted}`;
  const { PARHELION_CONFIG: _none, ...env } = process.env;
  const child = spawn('script', ['--quiet', '--return', '--command', words, '/dev/null'], {
    cwd: dir,
    env: { ...env, NODE_ENV: 'test', NO_COLOR: '1' },
  });
  t.after(() => child.kill('SIGHUP'));
  let text = '';
  child.stdout.on('data', (chunk: Buffer) => (text += chunk.toString().replaceAll('\r', '')));
  const seen = async (pattern: RegExp) => {
    for (let found = pattern.exec(text); ; found = pattern.exec(text)) {
      if (found !== null) return found;
      assert.equal(child.exitCode, null, text);
      await sleep(50);
    }
  };
  await seen(/ API key {4}.*\n.* projects list .*projects create --name NAME\)\n.*keys create/);
  const [, api] = await seen(/^ API {8}(\S+)/m);
  assert.equal((await fetch(`${api}/docs`)).status, 200);
  await seen(/^\[[\d:.]+\] INFO: api: .*\/docs.*$/m);
  child.stdin.write('\u0003');
  const [code] = await once(child, 'close');
  assert.equal(code, 0, text);
  const lines = text.split('\n');
  const [first, last] = [
    lines.findIndex((line) => line.startsWith(' API ')),
    lines.findIndex((line) => / ready( |$)/.test(line)),
  ];
  assert.ok(last >= 0 && last < first, text);
  for (const line of lines.slice(0, first - 1)) assert.match(line, /^\[\d\d:\d\d:\d\d\.\d{3}\] [A-Z]+: \S/, text);
  assert.equal(lines.filter((line) => line.includes('schema')).length, 1, text);
  assert.ok(!text.includes('ROLE_SILENT'), text);
});
