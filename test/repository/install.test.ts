/** What `npm ci` brings: little enough for somebody who only wants to try the program. */
import assert from 'node:assert/strict';
import { existsSync, lstatSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { findProjectRoot } from '../helpers/project-root.ts';

const MAX_FOLDERS = 300;
const MAX_MEGABYTES = 350;
/** The oldest version that the manifest allows. */
const OLDEST_NODE = [20, 19, 0] as const;

interface Entry {
  readonly engines?: { readonly node?: string };
  readonly optional?: boolean;
}

const root = findProjectRoot();
const { packages } = JSON.parse(readFileSync(`${root}package-lock.json`, 'utf8')) as {
  packages: Record<string, Entry>;
};

test(`at most ${MAX_FOLDERS} folders`, () => {
  const places = Object.keys(packages).filter((path) => path !== '');
  const folders = new Set(places.map((path) => path.split('/')[1]));
  assert.ok(folders.size <= MAX_FOLDERS, `${folders.size}`);
});

test(`at most ${MAX_MEGABYTES} MB`, () => {
  const sizeOf = (folder: string): number =>
    readdirSync(folder, { withFileTypes: true }).reduce((sum, entry) => {
      const path = join(folder, entry.name);
      return sum + (entry.isDirectory() ? sizeOf(path) : lstatSync(path).blocks * 512);
    }, 0);
  // Packages of an older lock file do not count.
  const installed = Object.keys(packages)
    .filter((path) => /^node_modules\/(@[^/]+\/)?[^/]+$/.test(path))
    .map((path) => join(root, path))
    // A link leads to a package that `npm run packages` installed elsewhere.
    .filter((path) => existsSync(path) && !lstatSync(path).isSymbolicLink());
  const megabytes = installed.reduce((sum, path) => sum + sizeOf(path), 0) / 2 ** 20;
  assert.ok(installed.length > 50);
  assert.ok(megabytes <= MAX_MEGABYTES, `${megabytes.toFixed(0)} MB`);
});

test('no package asks for a newer Node than the program does', () => {
  const manifest = JSON.parse(readFileSync(`${root}package.json`, 'utf8')) as { engines: { node: string } };
  assert.equal(manifest.engines.node, `>=${OLDEST_NODE.slice(0, 2).join('.')}`);
  // What is optional is left out without a word.
  const odd = Object.entries(packages).filter(
    ([path, { engines, optional }]) => path !== '' && optional !== true && !admits(engines?.node ?? '*'),
  );
  assert.deepEqual(
    odd.map(([path, { engines }]) => `${path}: ${engines?.node}`),
    [],
  );
});

/** Whether a range as packages write it holds the oldest Node. */
function admits(range: string): boolean {
  return range.split('||').some((choice) =>
    [...choice.trim().matchAll(/(>=|<=|>|<|\^|~|=)?\s*v?(\d+|[*x])(?:\.(\d+|[*x]))?(?:\.(\d+|[*x]))?/g)].every(
      ([, sign = '', ...parts]) => {
        const given = parts.map((part) => (part === undefined || /[*x]/.test(part) ? null : Number(part)));
        if (given[0] === null) return true;
        const at = OLDEST_NODE.findIndex((part, index) => part !== (given[index] ?? 0));
        const order = at === -1 ? 0 : OLDEST_NODE[at]! - (given[at] ?? 0);
        const same = (count: number) =>
          given.slice(0, count).every((part, index) => part === null || part === OLDEST_NODE[index]);
        if (sign === '>=') return order >= 0;
        if (sign === '>') return order > 0;
        if (sign === '<=') return order <= 0;
        if (sign === '<') return order < 0;
        if (sign === '^') return same(1) && order >= 0;
        if (sign === '~') return same(2) && order >= 0;
        return same(3);
      },
    ),
  );
}

test('ranges of Node are read as npm reads them', () => {
  for (const range of ['*', '>=18', '>= 20', '^18 || ^20 || >=22', '>=20.19', '20.x || 22.x', '>=12 <23', '20 || >=22'])
    assert.ok(admits(range), range);
  for (const range of ['>=22', '>=20.20', '^18.0.0 || ^22', '22.x', '>=18 <20', '>20.19.0', '~20.18.0'])
    assert.ok(!admits(range), range);
});
