import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../../', import.meta.url));

/** The manifest of the project, and that of what its long tests load besides. */
const FOLDERS = ['', 'test/packages/'];

test('the lock files name no download address', () => {
  for (const folder of FOLDERS)
    assert.equal(readFileSync(`${root}${folder}package-lock.json`, 'utf8').includes('"resolved"'), false, folder);
});

test('the lock files hold the binaries of every platform: npm refuses it otherwise', () => {
  type Entry = { readonly optionalDependencies?: Record<string, string> };
  const isPlatform = (name: string) => /(android|darwin|freebsd|linux|win32|openharmony)/.test(name);
  for (const folder of FOLDERS) {
    const lock = JSON.parse(readFileSync(`${root}${folder}package-lock.json`, 'utf8')) as {
      packages: Record<string, Entry>;
    };
    const paths = Object.keys(lock.packages);
    const wanted = Object.values(lock.packages).flatMap((entry) => Object.keys(entry.optionalDependencies ?? {}));
    const absent = wanted.filter(
      (name) => isPlatform(name) && !paths.some((path) => path.endsWith(`node_modules/${name}`)),
    );
    assert.deepEqual(absent, [], 'run `npm run lock`');
  }
});

test('dependencies are pinned exactly', () => {
  for (const folder of FOLDERS) {
    const text = readFileSync(`${root}${folder}package.json`, 'utf8');
    const manifest = JSON.parse(text) as Record<string, Record<string, string>>;
    for (const group of ['dependencies', 'optionalDependencies', 'devDependencies']) {
      for (const [name, version] of Object.entries(manifest[group] ?? {})) {
        assert.match(version, /^(npm:(@[^@]+|[^@]+)@)?\d+\.\d+\.\d+(-[\w.]+)?$/, `${name}: ${version}`);
      }
    }
  }
});

/** README files of modules; their paths begin in their own folder or at the root. */
const MODULES = ['src', 'src/adapters/chain', 'plugins', 'packages'].flatMap((folder) =>
  readdirSync(root + folder)
    .map((name) => `${folder}/${name}/README.md`)
    .filter((name) => existsSync(root + name)),
);
const DOCUMENTS = ['README.md', 'ARCHITECTURE.md', 'CHANGELOG.md', 'CONTRIBUTING.md', 'GLOSSARY.md', ...MODULES];
const PATH_DOCUMENTS = ['ARCHITECTURE.md', 'CONTRIBUTING.md', ...MODULES];

const folderOf = (name: string): string => root + name.slice(0, name.lastIndexOf('/') + 1);

test('relative links of the documents lead somewhere', () => {
  for (const name of DOCUMENTS) {
    const text = readFileSync(root + name, 'utf8');
    for (const [, target] of text.matchAll(/\]\((?!https?:|#)([^)#]+)(?:#[^)]*)?\)/g)) {
      assert.ok(existsSync(folderOf(name) + target), `${name} links to ${target}`);
    }
  }
});

test('the paths in code spans of the documents exist', () => {
  const files = [...readdirSync(root), ...FOLDERS_WITH_FILES.flatMap(filesBelow)];
  const paths = [...new Set(files.flatMap((file) => withFolders(file)))];
  const absent = PATH_DOCUMENTS.flatMap((name) => {
    const text = readFileSync(root + name, 'utf8').replace(/^```[\s\S]*?^```/gm, '');
    const words = [...text.matchAll(/`([^`\n]+)`/g)].flatMap(([, span]) => span!.split(/\s+/));
    const folder = folderOf(name).slice(root.length);
    return words.filter((word) => isPath(word) && !leads(word, folder, paths)).map((word) => `${name}: ${word}`);
  });
  assert.deepEqual(absent, []);
});

const FOLDERS_WITH_FILES = ['src', 'plugins', 'packages', 'test', 'docs', 'config', 'packaging', 'findings'];

function filesBelow(folder: string): readonly string[] {
  return readdirSync(root + folder, { withFileTypes: true }).flatMap((entry) => {
    if (entry.name === 'node_modules') return [];
    const path = `${folder}/${entry.name}`;
    return entry.isDirectory() ? filesBelow(path) : [path];
  });
}

const withFolders = (path: string): readonly string[] =>
  path.split('/').map((_, at, names) => names.slice(0, at + 1).join('/'));

/** Names of files, and paths that begin with a folder of the project. `<name>` and `*` stand for any name. */
function isPath(word: string): boolean {
  if (word.includes('node_modules') || !/^[\w<*][\w.<>*-]*(\/[\w.<>*-]+)*\/?$/.test(word)) return false;
  return /[\w>]\.(ts|tsx|mjs|js|json|yaml|md)$/.test(word) || FOLDERS_WITH_FILES.includes(word.split('/')[0]!);
}

/** A bare name may be in any folder; a path begins at the root or in the folder of the document. */
function leads(word: string, folder: string, paths: readonly string[]): boolean {
  const text = word
    .replace(/\/$/, '')
    .replaceAll('.', '\\.')
    .replace(/<[^>]*>|\*/g, '[^/]+');
  const start = word.includes('/') ? `(${folder})?` : '(.*/)?';
  const pattern = new RegExp(`^${start}${text}$`);
  return paths.some((path) => pattern.test(path));
}
