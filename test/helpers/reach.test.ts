import assert from 'node:assert/strict';
import { test } from 'node:test';
import { listFiles } from './list-files.ts';
import { findProjectRoot } from './project-root.ts';
import { reachedBy } from './reach.ts';

const root = findProjectRoot();
const tests = ['src', 'plugins', 'packages', 'test'].flatMap((folder) =>
  listFiles(`${root}${folder}`, (path) => path.endsWith('.test.ts')).map((path) => path.slice(root.length)),
);

/** Two of many: one that a change reaches, and one that it does not. */
const CASES: readonly (readonly [changed: string, reached: string, other: string | null])[] = [
  // By an import, by one through others, and by the program that runs it.
  ['src/lib/base58.ts', 'src/lib/base58.test.ts', 'src/jobs/due.test.ts'],
  ['src/lib/base58.ts', 'test/contract/compression/account-proofs.test.ts', 'src/jobs/due.test.ts'],
  ['plugins/fees/index.ts', 'test/conformance/fees/own.test.ts', 'src/lib/base58.test.ts'],
  ['src/cli/worker.ts', 'test/e2e/cli/serve.test.ts', 'src/lib/base58.test.ts'],
  // By a name in a text.
  ['config/parhelion.yaml', 'test/repository/pages.test.ts', 'src/lib/base58.test.ts'],
  ['docs/reference/wallet.md', 'test/e2e/docs/blocks.long.test.ts', 'src/lib/base58.test.ts'],
  ['systemd/parhelion.service', 'test/e2e/systemd/units.long.test.ts', 'src/lib/base58.test.ts'],
  // A test, by itself.
  ['src/jobs/due.test.ts', 'src/jobs/due.test.ts', 'src/lib/base58.test.ts'],
  ['package-lock.json', 'src/jobs/due.test.ts', null],
];

for (const [changed, reached, other] of CASES)
  test(`a change of ${changed} reaches ${reached}`, () => {
    const found = reachedBy(root, [changed], tests);
    assert.ok(found.has(reached), [...found].join('\n'));
    assert.equal(other !== null && found.has(other), false);
    assert.equal(found.size === tests.length, other === null);
  });
