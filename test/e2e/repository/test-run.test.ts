import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { findProjectRoot } from '../../helpers/project-root.ts';
import { inLongTier } from '../../helpers/run-part.ts';

/** What a run prints, and its exit code. */
function run(...options: readonly string[]) {
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const args = ['--import=tsx', 'test/run.ts', ...options];
  return spawnSync(process.execPath, args, { cwd: findProjectRoot(), env, encoding: 'utf8' });
}

function makeFolder(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'parhelion-test-run-'));
  t.after(() => rmSync(folder, { recursive: true }));
  return folder;
}

test('a test that fails makes the run fail, and so does an error outside of it; one that passes does not', (t) => {
  const folder = makeFolder(t);
  const runBody = (body: string) => {
    const file = join(folder, 'one.test.mjs');
    writeFileSync(file, `import { test } from 'node:test';\ntest('one', () => { ${body} });\n`);
    return run(file);
  };
  const failed = runBody("throw new Error('no')");
  assert.equal(failed.status, 1, failed.stdout + failed.stderr);
  assert.match(failed.stdout, /^ℹ fail 1$/m);
  const stray = runBody(
    "setTimeout(() => { throw new Error('stray'); }, 10); return new Promise((end) => setTimeout(end, 100))",
  );
  assert.equal(stray.status, 1, stray.stdout + stray.stderr);
  assert.match(stray.stdout, /Error: stray/);
  const passed = runBody('');
  assert.equal(passed.status, 0, passed.stdout + passed.stderr);
  assert.match(passed.stdout, /^ℹ pass 1$/m);
});

inLongTier(() =>
  test('files that share a process take turns: their hooks run around their own tests, and a test that does not run is found', (t) => {
    const folder = makeFolder(t);
    const log = join(folder, 'log');
    const url = (name: string) => pathToFileURL(join(folder, name)).href;
    const write = (name: string, body: string) =>
      writeFileSync(
        join(folder, name),
        `import { appendFileSync } from 'node:fs';
      import { after, before, describe, test } from 'node:test';
      const note = (what) => () => appendFileSync(${JSON.stringify(log)}, '${name[0]} ' + what + '\\n');
      ${body}`,
      );
    const body = (end: string) => `
    before(note('before'));
    after(note('after'));
    test('outer', note('outer'));
    describe('suite', () => {
      before(note('before the suite'));
      test('inner', async (t) => { await t.test('innermost', note('innermost')); });
      after(note('after the suite'));
    });
    test('last', () => { ${end} });`;
    const helper = pathToFileURL(join(findProjectRoot(), 'test/helpers/share-process.mjs')).href;
    const group = join(folder, 'two.group.mjs');
    const urls = JSON.stringify([url('one.test.mjs'), url('two.test.mjs')]);
    writeFileSync(group, `import { takeTurns } from '${helper}';\nawait takeTurns(${urls});\n`);

    write('one.test.mjs', body(''));
    write('two.test.mjs', body("note('last')();"));
    const passed = run(group);
    assert.equal(passed.status, 0, passed.stdout + passed.stderr);
    assert.match(passed.stdout, /^ℹ pass 8$/m);
    const turn = ['before', 'outer', 'before the suite', 'innermost', 'after the suite'];
    assert.deepEqual(readFileSync(log, 'utf8').trim().split('\n'), [
      ...[...turn, 'after'].map((what) => `o ${what}`),
      ...[...turn, 'last', 'after'].map((what) => `t ${what}`),
    ]);

    write('two.test.mjs', body("throw new Error('no');"));
    const failed = run(group);
    assert.equal(failed.status, 1, failed.stdout + failed.stderr);
    assert.match(failed.stdout, /^test at .*two\.test\.mjs:13:5$/m);

    write('two.test.mjs', body('process.exit(0);'));
    const ended = run(group);
    assert.equal(ended.status, 1, ended.stdout + ended.stderr);
    assert.match(ended.stdout, /^LOST TESTS:$/m);
    assert.match(ended.stdout, /^\S*two\.test\.mjs: \d+ tests and suites, \d+ reported; /m);

    writeFileSync(join(folder, 'two.test.mjs'), '');
    const empty = run(group);
    assert.equal(empty.status, 1, empty.stdout + empty.stderr);
    assert.match(empty.stdout, /^\S*two\.test\.mjs: it declares no test$/m);
  }),
);

/** What a run with these options would run: files, each with the part of it that runs. */
function listed(...options: readonly string[]): readonly string[] {
  const { status, stdout, stderr } = run('--list', ...options);
  assert.equal(status, 0, stderr);
  return stdout.trim().split('\n');
}

inLongTier(() =>
  test('the short tier and the rest are everything, once; so are the parts of a run', () => {
    const all = listed('--all');
    const [short, rest] = [listed(), listed('--rest')];
    assert.deepEqual([...short, ...rest.filter((line) => !line.includes(' '))].toSorted(), all.toSorted());
    assert.ok(short.every((line) => !line.includes(' ') && !line.includes('.long.')));
    assert.ok(rest.includes('test/contract/store/store.test.ts engine'));
    assert.ok(rest.includes('test/simulation/follower/random-1.test.ts seeds'));
    const shards = [1, 2, 3].flatMap((shard) => listed('--all', '--shard', `${shard}/3`));
    assert.deepEqual(shards.toSorted(), all.toSorted());
    assert.deepEqual(listed('contract/store/store'), ['test/contract/store/store.test.ts']);
    for (const wrong of [['--shard', '4/3'], ['--shards', '1/3'], ['no-such-file']])
      assert.equal(run('--list', ...wrong).status, 64);
  }),
);
