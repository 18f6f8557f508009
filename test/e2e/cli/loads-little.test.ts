/** What commands load of the built program: each piece that they do not need costs all users CPU time, and nobody sees where it comes from. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { cliArguments } from '../../helpers/daemon.ts';
import { findProjectRoot } from '../../helpers/project-root.ts';

const dist = join(findProjectRoot(), 'dist');
const skip = cliArguments.length === 1 ? false : 'measures the built program: npm test -- loads-little';

const dir = mkdtempSync(join(tmpdir(), 'parhelion-loads-'));
after(() => rmSync(dir, { recursive: true, force: true }));
const configFile = join(dir, 'parhelion.yaml');
writeFileSync(configFile, JSON.stringify({ dataDir: dir, upstream: { urls: ['http://127.0.0.1:9'] } }));

interface Loaded {
  readonly code: number | null;
  readonly output: string;
  readonly bytes: number;
  /** Sources and packages of which code was loaded, as the build names them. */
  readonly sources: ReadonlySet<string>;
}

/** Runs a command; V8 writes which scripts a process has compiled where it is asked for coverage. */
function run(...args: string[]): Loaded {
  const coverage = mkdtempSync(join(dir, 'coverage-'));
  const { status, stdout, stderr } = spawnSync(process.execPath, [...cliArguments, ...args], {
    cwd: coverage,
    env: { PATH: process.env['PATH'], PARHELION_CONFIG: '', NODE_V8_COVERAGE: coverage },
    encoding: 'utf8',
  });
  const files = readdirSync(coverage).flatMap((name) => {
    const { result } = JSON.parse(readFileSync(join(coverage, name), 'utf8')) as { readonly result: { url: string }[] };
    return result.map(({ url }) => url).filter((url) => url.startsWith('file:'));
  });
  const texts = files.map((url) => readFileSync(fileURLToPath(url), 'utf8'));
  return {
    code: status,
    output: stdout + stderr,
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
  /^(node_modules\/(kysely|pino|undici|prom-client|ws|ajv|yaml|@solana\/web3\.js|better-sqlite3)\/|plugins\/[\w-]+\/plugin\.ts|src\/(store|chain|jobs|ledger|archive|portable|local-chain)\/)/;

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
  const unwanted =
    /^node_modules\/(ajv|prom-client|undici|ws|@solana\/web3\.js)\/|^src\/(local-chain|http\/reference)\//;
  assert.deepEqual(
    [...loaded.sources].filter((path) => unwanted.test(path)),
    [],
  );
  assert.ok(loaded.bytes <= programBytes() / 3, `${loaded.bytes} bytes`);
});
