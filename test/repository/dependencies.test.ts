/** What is installed with the package: under which licences, pinned how, and what runs while it is installed. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { findProjectRoot } from '../helpers/project-root.ts';
import { createSbom } from '../helpers/write-sbom.ts';

interface Entry {
  /** Where it is installed under another one. */
  readonly name?: string;
  readonly version: string;
  readonly license?: string;
  readonly integrity?: string;
  /** Part of the archive of another package, whose hash is that of all. */
  readonly inBundle?: boolean;
  readonly hasInstallScript?: boolean;
  readonly dev?: boolean;
  readonly os?: readonly string[];
  readonly resolved?: string;
}

const root = findProjectRoot();
const read = (path: string) => JSON.parse(readFileSync(`${root}${path}`, 'utf8')) as Record<string, unknown>;
const lock = read('package-lock.json') as { packages: Record<string, Entry> };
const production = Object.entries(lock.packages)
  .filter(([path, { dev }]) => path !== '' && dev !== true)
  .map(([path, entry]) => ({ path, name: path.slice(path.lastIndexOf('node_modules/') + 13), ...entry }));

/** Each may be used by anybody for anything, with its notice kept. */
const PERMISSIVE = new Set([
  'MIT-0',
  'MIT',
  'ISC',
  '0BSD',
  'BSD-2-Clause',
  'BSD-3-Clause',
  'Apache-2.0',
  'BlueOak-1.0.0',
  'CC0-1.0',
  'Unlicense',
  'WTFPL',
  'Python-2.0',
]);

/** What the field of the package does not tell in the usual form, with where it is told. */
const TOLD_ELSEWHERE: Readonly<Record<string, string>> = {
  eyes: 'MIT, in its file LICENSE',
  'text-encoding-utf-8': 'Unlicense, in its file LICENSE.md',
  'rpc-websockets': 'LGPL-3.0-only: a library of its own below @solana/web3.js, unchanged and replaceable',
};

function isPermissive(license: string): boolean {
  return license
    .replaceAll(/[()]/g, '')
    .split(' OR ')
    .some((one) => one.split(' AND ').every((part) => PERMISSIVE.has(part.trim())));
}

test('everything that is installed for production has a permissive licence, or is named with its reason', () => {
  assert.ok(production.length > 100);
  // Compiled code of one platform: the package that wants it tells the licence.
  const whole = production.filter(({ os }) => os === undefined);
  const odd = whole.filter(({ license = '' }) => !isPermissive(license)).map(({ name }) => name);
  assert.deepEqual([...new Set(odd)].sort(), Object.keys(TOLD_ELSEWHERE).sort());
});

test('the licences of the packages that do not tell them in their field are what we say', () => {
  for (const [name, words] of [
    ['eyes', /Permission is hereby granted, free of charge/],
    ['text-encoding-utf-8', /unlicense|public domain/i],
  ] as const) {
    const files = ['LICENSE', 'LICENSE.md', 'README.md'].map((file) => `${root}node_modules/${name}/${file}`);
    const text = files.filter((file) => existsSync(file)).map((file) => readFileSync(file, 'utf8'));
    assert.match(text.join('\n'), words, name);
  }
});

test('only known packages run something while they are installed', () => {
  const scripts = production.filter(({ hasInstallScript }) => hasInstallScript === true).map(({ name }) => name);
  assert.deepEqual([...new Set(scripts)].sort(), ['better-sqlite3', 'bufferutil', 'esbuild', 'utf-8-validate']);
});

test('every package is pinned by its version and the hash of its content', () => {
  const loose = production.filter(
    (one) => !/^\d+\.\d+\.\d+(-[\w.]+)?$/.test(one.version) || one.resolved !== undefined,
  );
  assert.deepEqual(loose, []);
  // Compiled code of other platforms that the registry of the last `npm run lock` did not have: the list may only get shorter.
  const unhashed = Object.entries(lock.packages).filter(
    ([path, { integrity, inBundle }]) => path !== '' && integrity === undefined && inBundle !== true,
  );
  const platforms = ['darwin-arm64', 'darwin-x64', 'linux-arm64-gnu', 'linux-arm64-musl', 'linux-x64-musl'];
  const names = unhashed.map(([path]) => path.slice(path.lastIndexOf('node_modules/') + 13));
  assert.deepEqual(
    names,
    platforms.map((platform) => `litesvm-${platform}`),
  );
});

test('nothing with a known hole is installed for production', () => {
  // CVE-2022-0235: credentials are sent along to where a redirect leads; fixed in 2.6.7 and 3.1.1.
  const old = production.filter(
    ({ name, version }) => name === 'node-fetch' && /^(1|2\.[0-5]|2\.6\.[0-6]$)/.test(version),
  );
  assert.deepEqual(old, []);
});

test('`npm run sbom` lists all of it once, with licence, hash and what it depends on', () => {
  const { components, dependencies, metadata } = createSbom(lock.packages);
  assert.deepEqual(
    [...new Set(production.map(({ name, version }) => `${name}@${version}`))].sort(),
    components.map(({ name, version }) => `${name}@${version}`).sort(),
  );
  const pg = components.find(({ name }) => name === 'pg');
  assert.match(pg?.purl ?? '', /^pkg:npm\/pg@\d/);
  assert.deepEqual(pg?.licenses, [{ license: { id: 'MIT' } }]);
  assert.match(pg?.hashes?.[0]?.content ?? '', /^[0-9a-f]{128}$/);
  const refs = new Set(components.map((one) => one['bom-ref']));
  assert.deepEqual(
    dependencies.flatMap(({ dependsOn }) => dependsOn).filter((ref) => !refs.has(ref)),
    [],
  );
  const { dependsOn } = dependencies.find(({ ref }) => ref === metadata.component['bom-ref'])!;
  const { dependencies: direct, optionalDependencies: optional } = read('package.json') as Record<string, object>;
  assert.equal(dependsOn.length, Object.keys({ ...direct, ...optional }).length);
});
