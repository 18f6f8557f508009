import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, test } from 'node:test';
import { chainMissing } from '../../helpers/chain.ts';
import { runCommand } from '../../helpers/daemon.ts';
import { findProjectRoot } from '../../helpers/project-root.ts';

const root = findProjectRoot();
const home = mkdtempSync(join(tmpdir(), 'parhelion-plugin-new-'));
after(() => rmSync(home, { recursive: true, force: true }));
const missing = await chainMissing();

test('plugin new writes a package that builds against the published types and passes its own test', {
  skip: missing ?? false,
}, async () => {
  const { code, err } = await runCommand(['plugin', 'new', 'slot-notes'], { cwd: home });
  assert.equal(code, 0, err);
  const folder = join(home, 'slot-notes');
  const manifest = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  // Nothing has to be published, and nobody else can take the name.
  assert.equal(manifest.devDependencies.parhelion, `file:${root.replace(/\/$/, '')}`);
  const lines = (path: string) => readFileSync(join(folder, path), 'utf8').split('\n').length;
  assert.ok(lines('src/index.ts') <= 120 && lines('src/plugin.test.ts') <= 60);

  mkdirSync(join(folder, 'node_modules/@types'), { recursive: true });
  symlinkSync(root, join(folder, 'node_modules/parhelion'));
  symlinkSync(join(root, 'node_modules/@types/node'), join(folder, 'node_modules/@types/node'));
  const run = (...args: string[]) => spawnSync(process.execPath, args, { cwd: folder, encoding: 'utf8', env: {} });
  // Strict, and declarations of libraries are checked too.
  const built = run(join(root, 'node_modules/typescript/bin/tsc'));
  assert.equal(built.status, 0, built.stdout);
  // As npm runs it: under every Node it has to find the test, not only the folder.
  const { test: script } = manifest.scripts as { readonly test: string };
  const tested = spawnSync('sh', ['-c', script.replace('npm run build && ', '')], {
    cwd: folder,
    encoding: 'utf8',
    env: { PATH: `${dirname(process.execPath)}:/usr/bin:/bin` },
  });
  assert.equal(tested.status, 0, tested.stdout + tested.stderr);
  assert.match(tested.stdout, /^(# |ℹ )pass 1$/m);
  assert.match(tested.stdout, /blocks are stored, served, and reverted on a reorg/);

  const again = await runCommand(['plugin', 'new', 'slot-notes'], { cwd: home });
  assert.deepEqual([again.code, (await runCommand(['plugin', 'new', 'No/Name'], { cwd: home })).code], [64, 64]);
});
