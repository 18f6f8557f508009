import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';
import { listFiles } from '../../helpers/list-files.ts';

const root = fileURLToPath(new URL('../../../', import.meta.url));
const sources = ['src', 'plugins'].flatMap((folder) => listFiles(root + folder, (path) => path.endsWith('.ts')));
const MAX_FILE_LINES = 300;
const MAX_FUNCTION_LINES = 60;
/** The plugin API is one file on purpose: a third party reads it from top to bottom. */
const LONG_FILES = new Map([['src/kernel/plugin.ts', 480]]);

test('no source file is longer than 300 lines', () => {
  const long = sources
    .map((path) => ({ path: path.slice(root.length), lines: readFileSync(path, 'utf8').trimEnd().split('\n').length }))
    .filter(({ path, lines }) => lines > (LONG_FILES.get(path) ?? MAX_FILE_LINES));
  assert.deepEqual(long, []);
});

test('no function is longer than 60 lines', () => {
  const long: string[] = [];
  for (const path of sources) {
    const file = ts.createSourceFile(path, readFileSync(path, 'utf8'), ts.ScriptTarget.ES2022, true);
    const visit = (node: ts.Node): void => {
      if (ts.isFunctionLike(node) && 'body' in node && node.body !== undefined) {
        const lines = ownLines(file, node);
        if (lines > MAX_FUNCTION_LINES)
          long.push(`${path.slice(root.length)}:${lineOf(file, node.getStart(file))} ${lines} lines`);
      }
      ts.forEachChild(node, visit);
    };
    visit(file);
  }
  assert.deepEqual(long, []);
});

/** Lines of a function without those of functions nested in it: a factory that returns named closures is as long as its own code. */
function ownLines(file: ts.SourceFile, node: ts.Node): number {
  const span = (inner: ts.Node) => lineOf(file, inner.getEnd()) - lineOf(file, inner.getStart(file)) + 1;
  let nested = 0;
  const visit = (child: ts.Node): void => {
    if (ts.isFunctionLike(child) && 'body' in child && child.body !== undefined) nested += Math.max(0, span(child) - 1);
    else ts.forEachChild(child, visit);
  };
  ts.forEachChild(node, visit);
  return span(node) - nested;
}

function lineOf(file: ts.SourceFile, position: number): number {
  return file.getLineAndCharacterOfPosition(position).line + 1;
}

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
