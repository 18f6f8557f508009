import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../../', import.meta.url));

test('the lock file names no download address', () => {
  assert.equal(readFileSync(`${root}package-lock.json`, 'utf8').includes('"resolved"'), false);
});

test('the lock file holds the binaries of every platform: npm refuses it otherwise', () => {
  type Entry = { readonly optionalDependencies?: Record<string, string> };
  const lock = JSON.parse(readFileSync(`${root}package-lock.json`, 'utf8')) as { packages: Record<string, Entry> };
  const paths = Object.keys(lock.packages);
  const wanted = Object.values(lock.packages).flatMap((entry) => Object.keys(entry.optionalDependencies ?? {}));
  const isPlatform = (name: string) => /(android|darwin|freebsd|linux|win32|openharmony)/.test(name);
  const absent = wanted.filter(
    (name) => isPlatform(name) && !paths.some((path) => path.endsWith(`node_modules/${name}`)),
  );
  assert.deepEqual(absent, [], 'run `npm run lock`');
});

test('dependencies are pinned exactly', () => {
  const manifest = JSON.parse(readFileSync(`${root}package.json`, 'utf8')) as Record<string, Record<string, string>>;
  for (const group of ['dependencies', 'optionalDependencies', 'devDependencies']) {
    for (const [name, version] of Object.entries(manifest[group] ?? {})) {
      assert.match(version, /^(npm:(@[^@]+|[^@]+)@)?\d+\.\d+\.\d+(-[\w.]+)?$/, `${name}: ${version}`);
    }
  }
});

test('relative links of the documents lead somewhere', () => {
  for (const name of ['README.md', 'ARCHITECTURE.md', 'CHANGELOG.md']) {
    const text = readFileSync(root + name, 'utf8');
    for (const [, target] of text.matchAll(/\]\((?!https?:|#)([^)#]+)(?:#[^)]*)?\)/g)) {
      assert.ok(existsSync(root + target), `${name} links to ${target}`);
    }
  }
});
