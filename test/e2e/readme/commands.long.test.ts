import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { parse } from 'yaml';
import { localChainBanner, welcome } from '../../../src/cli/local-chain.ts';
import { EXIT } from '../../../src/lib/coded-error.ts';
import { cliArguments, runCommand } from '../../helpers/daemon.ts';
import { findProjectRoot } from '../../helpers/project-root.ts';
import { commandsOf, docsBlock, guideText, readmeBlock, readmeBlocks, readmeText } from '../../helpers/readme.ts';

const root = findProjectRoot();
const manifest = JSON.parse(readFileSync(`${root}package.json`, 'utf8')) as {
  readonly scripts: Readonly<Record<string, string>>;
  readonly bin: { readonly parhelion: string };
};
const inFolder = (t: TestContext): string => {
  const dir = mkdtempSync(join(tmpdir(), 'parhelion-readme-'));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
};

/** A command of the README in a shell, `npx parhelion` being the command line from the source. */
function shell(command: string, cwd: string, env: Record<string, string> = {}) {
  const node = [process.execPath, ...cliArguments].map((word) => `'${word}'`).join(' ');
  const { status, stdout, stderr } = spawnSync('bash', ['-c', command.replaceAll('npx parhelion', node)], {
    cwd,
    env: { PATH: process.env['PATH'], ...env },
    encoding: 'utf8',
  });
  return { code: status, out: stdout, err: stderr };
}

test('every block is one that a test runs, or is known not to run here', () => {
  const ran = ['curl ', 'npx parhelion init', 'npx parhelion projects create', 'first.example'];
  const elsewhere = ['npm ci && npm start', '\nnpm test', 'https://your-node.example npm start', 'systemctl'];
  const unknown = readmeBlocks().filter(
    ({ text }) => ![...ran, ...elsewhere].some((marker) => `\n${text}`.includes(marker)),
  );
  assert.deepEqual(unknown, []);
  for (const marker of [...ran, ...elsewhere].map((word) => word.trim())) readmeBlock(marker);
});

test('scripts of npm, subcommands, links and files that it names exist', async () => {
  const text = readmeText();
  const scripts = [...text.matchAll(/npm run ([\w:]+)/g)].map(([, name]) => name!);
  for (const name of [...scripts, 'start', 'test']) assert.ok(manifest.scripts[name] !== undefined, `npm run ${name}`);
  const links = [...text.matchAll(/\]\((?!https?:)([^)#]+)/g)].map(([, path]) => path!);
  assert.ok(links.length > 5);
  for (const path of links) assert.ok(existsSync(root + path), path);
  const commands = [...text.matchAll(/parhelion ((?:(?:projects|keys|webhooks) )?[a-z][a-z-]+)(?= -|`| #|\n| ;)/g)];
  assert.ok(commands.length >= 6, String(commands.length));
  for (const [, command] of commands) {
    const { code, out } = await runCommand([...command!.split(' '), '--help']);
    assert.deepEqual([command, code], [command, 0]);
    assert.match(out, new RegExp(`^Usage: parhelion ${command} `), command);
  }
  assert.equal(manifest.bin.parhelion, 'dist/src/cli/main.js', 'what `npm run build` makes');
});

test('the exit codes are those of the table', () => {
  const sentence = /Exit codes: ([^.]*)\./.exec(readmeText().replaceAll('\n', ' '))![1]!;
  const told = [...sentence.matchAll(/(?<![\w.])(\d+) /g)].map(([, code]) => Number(code)).sort((a, b) => a - b);
  assert.deepEqual(
    told,
    Object.values(EXIT).sort((a, b) => a - b),
  );
});

test('the commands of a first start are the ones that the banner prints', () => {
  const printed = welcome(
    { api: 'http://127.0.0.1:8787', websocket: null, admin: 'http://127.0.0.1:8790' },
    { key: { projectId: 'P', key: 'KEY' }, operatorToken: null },
    { chain: 'local', program: 'npx parhelion', hasDashboard: true },
  ).filter((line) => line.startsWith('curl '));
  const written = commandsOf(readmeBlock('curl '));
  const [, watched = ''] = /accountAddresses":\["([^"]+)/.exec(printed.join('')) ?? [];
  assert.match(watched, /^[1-9A-HJ-NP-Za-km-z]{32,44}$/);
  assert.deepEqual(
    printed,
    written.map((line) => line.replace('ADDRESS', watched)),
  );
  const chain = { rpcUrl: 'r', wsUrl: 'w', socketPort: 8900, engine: 'e', continues: false, storeDir: 'd' };
  const banner = localChainBanner(chain, 'parhelion').join('\n');
  const listed = (hasDashboard: boolean) =>
    welcome(
      { api: 'http://127.0.0.1:8787', websocket: null, admin: 'http://127.0.0.1:8790' },
      { key: null, operatorToken: 'op_x' },
      { chain: 'local', program: 'parhelion', hasDashboard },
    ).join('\n');
  assert.match(listed(true), /\/metrics, \/dashboard\)[\s\S]*op_x/);
  assert.doesNotMatch(listed(false), /dashboard|op_x/i, 'pages that the daemon does not load');
  assert.ok(banner.includes('It also uses port 8900'));
  assert.ok(banner.includes('SOLANA_RPC_URL=... parhelion serve') && readmeText().includes('SOLANA_RPC_URL='));
});

test('init, check-config, dump-config and commands on a file, as written', async (t) => {
  const dir = inFolder(t);
  const [build, init, check, serve, ...rest] = commandsOf(readmeBlock('npx parhelion init'));
  assert.deepEqual([build, rest], ['npm run build', []]);
  assert.equal(shell(init!, dir).code, 0);
  for (const command of [check!, serve!]) {
    const refused = shell(command, dir);
    assert.equal(refused.code, 78, 'nothing is set yet');
    // What ends a daemon is a line of its log.
    assert.match(command === serve ? refused.out : refused.err, /set upstream\.urls/);
  }
  writeFileSync(join(dir, 'parhelion.yaml'), readmeBlock('first.example'));
  const good = shell(check!, dir);
  assert.equal(good.code, 0, good.err);
  assert.equal(existsSync(join(dir, 'data')), false);
  const paid = `plugins: [access, proxy, signup]\n${docsBlock('lamports: 20000000')}${readmeBlock('first.example')}`;
  writeFileSync(join(dir, 'paid.yaml'), paid.replace('YOUR_WALLET', 'So11111111111111111111111111111111111111112'));
  const signup = shell('npx parhelion check-config --config paid.yaml', dir);
  assert.equal(signup.code, 0, signup.err);
  const { urls } = (parse(readmeBlock('first.example')) as { upstream: { urls: unknown[] } }).upstream;
  assert.equal(urls.length, 2);

  const [, ...variables] = /`(PARHELION_HTTP__PORT=80)`, `(PARHELION_STORE__URL_FILE)=/.exec(readmeText())!;
  const secret = join(dir, 'store-url');
  writeFileSync(secret, 'postgres://someone:hush@127.0.0.1/there\n');
  const dumped = shell(
    `${variables[0]} ${variables[1]}=${secret} npx parhelion dump-config --config parhelion.yaml`,
    dir,
  );
  assert.equal(dumped.code, 0, dumped.err);
  const values = parse(dumped.out) as { http: { port: number }; store: { url: string } };
  assert.equal(values.http.port, 80);
  assert.ok(values.store.url.startsWith('postgres://') && !values.store.url.includes('hush'), values.store.url);

  const json = (command: string) => {
    const { code, out, err } = shell(`${command} --json --config parhelion.yaml`, dir);
    assert.equal(code, 0, err);
    return JSON.parse(out) as Record<string, string>;
  };
  assert.equal(shell('npx parhelion migrate --config parhelion.yaml', dir).code, 0);
  const [makeProject, makeKey, makeToken, ...others] = commandsOf(readmeBlock('npx parhelion projects create'));
  assert.deepEqual(others, []);
  const first = shell(makeProject!, dir);
  const [id = ''] = /[0-9a-f-]{36}/.exec(first.out) ?? [];
  const made = shell(makeKey!.replace('PROJECT_ID', id), dir);
  assert.equal(made.code, 0, made.err);
  assert.match(shell(makeToken!, dir).out, /\bop_\w+/);
  const [, create, key] = /`(npx parhelion projects create --name N)`, `(npx parhelion keys create --project ID)/.exec(
    guideText(),
  )!;
  const project = json(create!);
  assert.match(json(`${key!.replace('ID', project['id']!)} --expires 90d`)['key']!, /^[0-9a-f-]{36}$/);
});
