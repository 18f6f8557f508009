/** The build that `npm start` waits for: what it leaves out is there when somebody asks for it, and nothing takes it for a whole one. */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { findRunFile } from '../../../src/cli/running-daemon.ts';
import { chainMissing } from '../../helpers/chain.ts';
import { findProjectRoot } from '../../helpers/project-root.ts';

const missing = await chainMissing();
if (missing !== null) console.error(`SKIPPED: ${missing}`);

const root = findProjectRoot();
const name = `start-build-${process.pid}`;
const out = join('.cache', name);
const built = join(root, out);
after(() => {
  for (const path of [built, join(root, '.cache', `built-from-${name}`)])
    rmSync(path, { recursive: true, force: true });
});

function build(...options: string[]): void {
  const { status, stderr } = spawnSync(process.execPath, ['build.mjs', out, ...options], {
    cwd: root,
    encoding: 'utf8',
  });
  assert.equal(status, 0, stderr);
}

/** All files but the pieces, whose names change. */
const files = (): readonly string[] =>
  readdirSync(built, { recursive: true, encoding: 'utf8' }).filter(
    (path) => !path.startsWith('pieces') && statSync(join(built, path)).isFile(),
  );

test('a build for a start makes no pages, guide, token list or types, and a daemon shows them all the same', {
  skip: missing ?? false,
}, async (t) => {
  build('--start');
  assert.deepEqual(
    files()
      .filter((path) => !/\.js$|LEGAL\.txt$/.test(path))
      .sort(),
    [
      'build.json',
      'plugins/dashboard/app/build.mjs',
      'src/http/reference/guide/build.mjs',
      'src/http/reference/page/docs.css',
    ],
    'a file that is not code costs each first start time',
  );

  const dataDir = mkdtempSync(join(tmpdir(), 'parhelion-start-build-'));
  t.after(() => rmSync(dataDir, { recursive: true, force: true }));
  const env = {
    PATH: process.env['PATH'],
    PARHELION_HTTP__PORT: '0',
    PARHELION_ADMIN__PORT: '0',
    PARHELION_UPSTREAM__LOCAL__PORT: '0',
  };
  const args = [join(built, 'src/cli/main.js'), 'serve', '--data-dir', dataDir];
  const child = spawn(process.execPath, args, { cwd: dataDir, env });
  const gone = once(child, 'close');
  t.after(() => child.kill('SIGKILL'));
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
  for (let tries = 0; tries < 1800 && findRunFile(dataDir) === null; tries++) {
    assert.equal(child.exitCode, null, output);
    await sleep(50);
  }
  const { api, admin } = findRunFile(dataDir)!;
  for (const [address, part] of [
    [`${api}/docs`, '<script type="module"'],
    [`${api}/docs/docs.js`, 'function'],
    [`${api}/docs/docs.css`, '{'],
    [`${api}/docs/guide/operators.html`, '<article>'],
    [`${api}/docs/guide/search.json`, 'operators.html'],
    [`${admin}/docs/guide/guide.js`, 'minisearch'],
    [`${admin}/dashboard`, '<script'],
    [`${admin}/dashboard/app.js`, 'import'],
    [`${admin}/dashboard/licenses.txt`, 'preact'],
  ] as const) {
    const reply = await fetch(address);
    const text = await reply.text();
    assert.equal(reply.status, 200, address);
    assert.ok(text.includes(part), `${address}: ${text.slice(0, 200)}`);
  }
  child.kill('SIGTERM');
  assert.deepEqual(await gone, [0, null], output);
});

test('a build for a start is current for the next start only', () => {
  build('--start', '--if-changed');
  const made = statSync(join(built, 'src/cli/main.js')).mtimeMs;
  build('--start', '--if-changed');
  assert.equal(statSync(join(built, 'src/cli/main.js')).mtimeMs, made);
  build('--if-changed');
  const whole = files();
  for (const path of [
    'types/plugin/plugin.d.ts',
    'plugins/token-metadata/solana.tokenlist.json.br',
    'plugins/dashboard/pages/index.html',
    'src/http/reference/guide/pages/index.html.br',
    'src/http/reference/page/docs.js.br',
  ])
    assert.ok(whole.includes(path), path);
  for (const path of whole) assert.doesNotMatch(path, /build\.mjs$|page\/docs\.(js|css)$/);
  const again = statSync(join(built, 'src/cli/main.js')).mtimeMs;
  build('--start', '--if-changed');
  assert.equal(statSync(join(built, 'src/cli/main.js')).mtimeMs, again, 'a whole build does for a start');
});

test('no package is made of a build for a start', () => {
  const checkout = mkdtempSync(join(tmpdir(), 'parhelion-start-package-'));
  try {
    const copied = spawnSync('cp', ['-R', 'packaging', 'package.json', checkout], { cwd: root });
    assert.equal(copied.status, 0);
    const { status, stderr } = spawnSync(process.execPath, ['packaging/run.mjs', '--built'], {
      cwd: checkout,
      encoding: 'utf8',
    });
    assert.equal(status, 1);
    assert.match(stderr, /--built: dist is missing or was built for `npm start`/);
    assert.equal(existsSync(join(checkout, 'dist-packages')), false);
  } finally {
    rmSync(checkout, { recursive: true, force: true });
  }
});
