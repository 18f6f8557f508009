/**
 * Which test files a change can reach: those whose imports, followed from file to file, lead to a file that has changed, and those that name
 * it or a folder above it in a text. When in doubt a test is reached.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';

/** Everything depends on these. */
const EVERYTHING =
  /^(package(-lock)?\.json|tsconfig\.json|build\.mjs|\.ci\/.*|test\/run\.ts|test\/helpers\/(gate|run-files|share-process|test-process|summary-reporter|run-part)\.\w+)$/;
/** A test that reaches one of these runs the whole program: it loads plugins, threads and commands by name. */
const PROGRAM = /^(src\/(cli|daemon)\/|test\/helpers\/(daemon|built-daemon|work-harness)\.ts$)/;
const PROGRAM_SOURCES = /^(src|plugins|packages)\//;
/** They read the tree itself. */
const READS_TREE = /^test\/(repository|packaging|e2e\/(docs|readme|guide|reference|plugins|repository))\//;
const IMPORT = /(?:from|import)\s*\(?\s*'(\.{1,2}\/[^']+)'|new URL\('(\.{1,2}\/[^']+)', import\.meta\.url\)/g;
const PUBLIC: Readonly<Record<string, string>> = {
  'parhelion/plugin': 'src/plugin/plugin.ts',
  'parhelion/kit': 'src/runtime/kit.ts',
  'parhelion/test': 'src/cli/test-kit.ts',
};

/** The test files that changes since the commit can reach, uncommitted files included. All paths start at the root. */
export function reachedSince(root: string, commit: string, tests: readonly string[]): ReadonlySet<string> {
  const git = (...args: readonly string[]) =>
    execFileSync('git', args, { cwd: root, encoding: 'utf8' }).split('\n').filter(Boolean);
  const changed = [
    ...git('diff', '--name-only', '--no-renames', commit),
    ...git('ls-files', '--others', '--exclude-standard'),
  ];
  return reachedBy(root, changed, tests);
}

export function reachedBy(root: string, changed: readonly string[], tests: readonly string[]): ReadonlySet<string> {
  if (changed.some((file) => EVERYTHING.test(file))) return new Set(tests);
  const texts = new Map<string, string>();
  const textOf = (file: string) => {
    const known = texts.get(file) ?? (/\.(ts|tsx|mjs|js)$/.test(file) ? readFileSync(join(root, file), 'utf8') : '');
    texts.set(file, known);
    return known;
  };
  const places = new Map<string, readonly string[]>();
  const importsOf = (file: string) => {
    const known = places.get(file) ?? readImports(root, file, textOf(file));
    places.set(file, known);
    return known;
  };
  const sources = new Set(changed.filter((file) => PROGRAM_SOURCES.test(file) && !file.endsWith('.test.ts')));
  // A file that is gone, or that no import leads to, is looked for by its name and by the folders above it.
  const names = changed.flatMap((file) => namesOf(file));
  const naming = new Map<string, boolean>();
  const namesOne = (file: string) => {
    const known = naming.get(file) ?? names.some((name) => textOf(file).includes(name));
    naming.set(file, known);
    return known;
  };
  const isReached = (test: string): boolean => {
    const seen = new Set<string>([test]);
    for (const file of seen) for (const next of importsOf(file)) seen.add(next);
    if (changed.some((file) => seen.has(file))) return true;
    if (READS_TREE.test(test)) return true;
    if (sources.size > 0 && [...seen].some((file) => PROGRAM.test(file))) return true;
    return [...seen].some(namesOne);
  };
  return new Set(tests.filter(isReached));
}

/** How a text may name a file: source files are found by imports, except those that are run by their name. */
function namesOf(file: string): readonly string[] {
  if (file.endsWith('.test.ts')) return [];
  const isSource = /\.(ts|tsx)$/.test(file);
  const name = basename(file);
  if (isSource) return [`'${name}'`, `/${name}'`, name.replace(/\.tsx?$/, '.js')].filter((text) => text.length > 6);
  const [top = ''] = file.split('/');
  return file.includes('/') ? [name, `${dirname(file)}/`, `'${top}'`, `'${top}/`, `/${top}/`] : [name];
}

function readImports(root: string, file: string, text: string): readonly string[] {
  const found = [...text.matchAll(IMPORT)].map(([, imported, named]) => join(dirname(file), imported ?? named ?? ''));
  const publics = Object.keys(PUBLIC).filter((name) => text.includes(`'${name}'`));
  return [...found, ...publics.map((name) => PUBLIC[name] ?? '')]
    .map((path) => relative('.', path))
    .filter((path) => existsSync(join(root, path)) && statSync(join(root, path)).isFile());
}
