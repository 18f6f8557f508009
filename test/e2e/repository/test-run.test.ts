import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { findProjectRoot } from '../../helpers/project-root.ts';

test('a test that fails makes the run fail, and so does an error outside of it; one that passes does not', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'parhelion-test-run-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const run = (body: string) => {
    const file = join(folder, 'one.test.mjs');
    writeFileSync(file, `import { test } from 'node:test';\ntest('one', () => { ${body} });\n`);
    const { NODE_TEST_CONTEXT: _, ...env } = process.env;
    const args = ['--import=tsx', 'test/run.ts', file];
    return spawnSync(process.execPath, args, { cwd: findProjectRoot(), env, encoding: 'utf8' });
  };
  const failed = run("throw new Error('no')");
  assert.equal(failed.status, 1, failed.stdout + failed.stderr);
  assert.match(failed.stdout, /^ℹ fail 1$/m);
  const stray = run(
    "setTimeout(() => { throw new Error('stray'); }, 10); return new Promise((end) => setTimeout(end, 100))",
  );
  assert.equal(stray.status, 1, stray.stdout + stray.stderr);
  assert.match(stray.stdout, /Error: stray/);
  const passed = run('');
  assert.equal(passed.status, 0, passed.stdout + passed.stderr);
  assert.match(passed.stdout, /^ℹ pass 1$/m);
});
