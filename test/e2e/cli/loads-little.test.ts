/** What commands load of the built program: each piece that they do not need costs all users CPU time, and nobody sees where it comes from. */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { findRunFile } from '../../../src/cli/running-daemon.ts';
import { chainMissing } from '../../helpers/chain.ts';
import { cliArguments } from '../../helpers/daemon.ts';
import { findProjectRoot } from '../../helpers/project-root.ts';

const dist = join(findProjectRoot(), 'dist');
const skip = cliArguments.length === 1 ? false : 'measures the built program: npm test -- loads-little';

const dir = mkdtempSync(join(tmpdir(), 'parhelion-loads-'));
after(() => rmSync(dir, { recursive: true, force: true }));
const configFile = join(dir, 'parhelion.yaml');
writeFileSync(configFile, JSON.stringify({ dataDir: dir, upstream: { urls: ['http://127.0.0.1:9'] } }));

interface Code {
  readonly bytes: number;
  /** Sources and packages of which code was loaded, as the build names them. */
  readonly sources: ReadonlySet<string>;
}

interface Loaded extends Code {
  readonly code: number | null;
  readonly output: string;
}

/** Runs a command; V8 writes which scripts a process has compiled where it is asked for coverage. */
function run(...args: string[]): Loaded {
  const coverage = mkdtempSync(join(dir, 'coverage-'));
  const { status, stdout, stderr } = spawnSync(process.execPath, [...cliArguments, ...args], {
    cwd: coverage,
    env: { PATH: process.env['PATH'], PARHELION_CONFIG: '', NODE_V8_COVERAGE: coverage },
    encoding: 'utf8',
  });
  return {
    code: status,
    output: stdout + stderr,
    ...codeOf(readdirSync(coverage).map((name) => join(coverage, name))),
  };
}

/** What the threads loaded that wrote these files. */
function codeOf(covered: readonly string[]): Code {
  const files = covered.flatMap((path) => {
    const { result } = JSON.parse(readFileSync(path, 'utf8')) as { readonly result: { url: string }[] };
    return result.map(({ url }) => url).filter((url) => url.startsWith('file:'));
  });
  const texts = files.map((url) => readFileSync(fileURLToPath(url), 'utf8'));
  return {
    bytes: texts.reduce((sum, text) => sum + text.length, 0),
    sources: new Set(
      texts.flatMap((text) => [...text.matchAll(/^\/\/ (\S+\.[cm]?[jt]s)$/gm)].map(([, path]) => path!)),
    ),
  };
}

/** Size of all code of the program. */
function programBytes(): number {
  const names = readdirSync(dist, { recursive: true, encoding: 'utf8' }).filter(
    (name) => name.endsWith('.js') && !name.startsWith('plugins/dashboard/pages/'),
  );
  return names.reduce((sum, name) => sum + statSync(join(dist, name)).size, 0);
}

/** What loads a store, a chain, a listener or a daemon; and YAML and Ajv, without a file to read and errors to describe. */
const OF_DAEMONS =
  /^(node_modules\/(kysely|pino|undici|prom-client|ws|ajv|yaml|@solana\/web3\.js|better-sqlite3)\/|plugins\/[\w-]+\/plugin\.ts|src\/(store|chain|jobs|ledger)\/|packages\/)/;

for (const [args, code] of [
  [['--version'], 0],
  [['--help'], 0],
  [['keys', 'create', '--help'], 0],
  [['completion', 'bash'], 0],
  [['check-config'], 0],
  // No local chain runs.
  [['projects', 'list'], 75],
] as const)
  test(`parhelion ${args.join(' ')} loads a tenth of the program at most, and nothing that is a daemon's`, {
    skip,
  }, () => {
    const loaded = run(...args, '--data-dir', dir);
    assert.equal(loaded.code, code, loaded.output);
    assert.deepEqual(
      [...loaded.sources].filter((path) => OF_DAEMONS.test(path)),
      [],
    );
    assert.ok(loaded.sources.has('src/cli/run.ts'), 'the loaded code is recognized');
    const share = loaded.bytes / programBytes();
    assert.ok(share > 0 && share <= 1 / 10, `${loaded.bytes} bytes`);
  });

test('parhelion projects list on a store loads its plugin and no other, and a third of the program at most', {
  skip,
}, () => {
  const file = ['--config', configFile];
  const migrated = run('migrate', ...file);
  assert.equal(migrated.code, 0, migrated.output);
  const loaded = run('projects', 'list', ...file);
  assert.deepEqual([loaded.code, loaded.output], [0, 'no projects\n']);
  const plugins = [...loaded.sources].filter((path) => /^plugins\/[\w-]+\/plugin\.ts$/.test(path));
  assert.deepEqual(plugins, ['plugins/access/plugin.ts']);
  const unwanted = /^node_modules\/(ajv|prom-client|undici|ws|@solana\/web3\.js)\/|^(packages|src\/http\/reference)\//;
  assert.deepEqual(
    [...loaded.sources].filter((path) => unwanted.test(path)),
    [],
  );
  assert.ok(loaded.bytes <= programBytes() / 3, `${loaded.bytes} bytes`);
});

test('parhelion ledger verify loads the ledger, and nothing of the products beside the core', { skip }, () => {
  const loaded = run('ledger', 'verify', '--config', configFile);
  assert.equal(loaded.code, 78, loaded.output);
  assert.ok(loaded.sources.has('src/ledger/index.ts'), 'the loaded code is recognized');
  assert.deepEqual(
    [...loaded.sources].filter((path) => path.startsWith('packages/')),
    [],
  );
});

const noChain = skip === false ? await chainMissing() : null;
if (noChain !== null) console.error(`SKIPPED: ${noChain}`);

for (const [what, config, count] of [
  ['a daemon with a configuration', { upstream: { local: { mode: 'on' } } }, 3],
  ['a first try', null, 1],
] as const)
  test(`${what} leaves the local chain to its process, and each of its ${count} threads loads two thirds of the program at most`, {
    skip: skip || (noChain ?? false),
  }, async (t) => {
    const coverage = mkdtempSync(join(dir, 'coverage-'));
    const dataDir = mkdtempSync(join(dir, 'data-'));
    const file = join(dataDir, 'config.yaml');
    if (config !== null) writeFileSync(file, JSON.stringify(config));
    const env = {
      PATH: process.env['PATH'],
      PARHELION_HTTP__PORT: '0',
      PARHELION_ADMIN__PORT: '0',
      PARHELION_UPSTREAM__LOCAL__PORT: '0',
      NODE_V8_COVERAGE: coverage,
    };
    const child = spawn(
      process.execPath,
      [...cliArguments, 'serve', '--data-dir', dataDir, ...(config === null ? [] : ['--config', file])],
      { cwd: dataDir, env },
    );
    const gone = once(child, 'close');
    t.after(() => child.kill('SIGKILL'));
    let output = '';
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
    for (let tries = 0; tries < 1800 && findRunFile(dataDir) === null; tries++) {
      assert.equal(child.exitCode, null, output);
      await sleep(50);
    }
    child.kill('SIGTERM');
    assert.deepEqual(await gone, [0, null], output);
    const names = readdirSync(coverage);
    const isThread = (name: string) => name.startsWith(`coverage-${child.pid}-`);
    const threads = names.filter(isThread).map((name) => codeOf([join(coverage, name)]));
    assert.equal(threads.length, count, 'one for each role, or one for all');
    const ofChain = codeOf(names.filter((name) => !isThread(name)).map((name) => join(coverage, name)));
    const unwanted = /^node_modules\/@solana\/web3\.js\/|^packages\/local-chain\/(?!index\.ts$|ledger\/genesis\.ts$)/;
    assert.ok([...ofChain.sources].filter((path) => unwanted.test(path)).length > 10, 'the loaded code is recognized');
    for (const { bytes, sources } of threads) {
      assert.deepEqual(
        [...sources].filter((path) => unwanted.test(path)),
        [],
      );
      assert.ok(bytes <= (2 / 3) * programBytes(), `${bytes} of ${programBytes()} bytes`);
    }
  });
