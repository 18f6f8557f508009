/**
 * Packages that `npm ci` does not bring: folders with a manifest and a lock file of their own, installed when something needs them. Those of
 * `test/packages` are found from all files below `test`, as if they were installed beside the others.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { findProjectRoot } from './project-root.ts';

export interface PackageFolder {
  readonly path: string;
  readonly what: string;
  /** Compiled for these only; null: for all. */
  readonly platform: string | null;
  readonly runsScripts: boolean;
}

const root = findProjectRoot();
const SUITES = 'test/packages';

/** Names of the packages that only the suites have. */
const ofSuites = Object.keys(
  (JSON.parse(readFileSync(join(root, SUITES, 'package.json'), 'utf8')) as { dependencies: object }).dependencies,
);

export const FOLDERS: readonly PackageFolder[] = [
  { path: SUITES, what: 'packages of the long suites, the bench and the checks', platform: null, runsScripts: true },
  { path: 'test/helpers/surfpool', what: 'a second chain', platform: 'linux-x64', runsScripts: true },
  { path: 'test/helpers/geyser', what: 'clients of block streams', platform: 'linux-x64', runsScripts: false },
  { path: 'test/helpers/duckdb', what: 'a reader of exported tables', platform: 'linux-x64', runsScripts: false },
  { path: 'test/helpers/x402', what: 'payments of single calls', platform: null, runsScripts: false },
  { path: 'test/helpers/inspector', what: 'a client of tools', platform: null, runsScripts: false },
  { path: 'test/helpers/node24', what: 'Node 24 for the long tier', platform: 'linux-x64', runsScripts: false },
  { path: 'test/helpers/sink-servers', what: 'clients of targets of sinks', platform: 'linux-x64', runsScripts: false },
];

/** The working directory from which a daemon finds the client package of block streams. */
export const GEYSER_DIR = join(root, 'test/helpers/geyser/');

/** What to run when a package of the suites is missing. */
export const HOW_TO_INSTALL = 'npm run packages';

interface Lock {
  readonly packages: Readonly<Record<string, { readonly version?: string; readonly optional?: boolean }>>;
}
const readLock = (path: string) => JSON.parse(readFileSync(path, 'utf8')) as Lock;

/** Whether a folder has all that its lock file names. npm writes what it installed beside the packages. */
function isInstalled({ path }: PackageFolder): boolean {
  const written = join(root, path, 'node_modules/.package-lock.json');
  if (!existsSync(written) || (path === SUITES && ofSuites.some((name) => packageFolder(name) === null))) return false;
  const installed = readLock(written).packages;
  return Object.entries(readLock(join(root, path, 'package-lock.json')).packages).every(
    ([place, { version, optional }]) => place === '' || optional === true || installed[place]?.version === version,
  );
}

/** Installs what is not there yet, and says so. Throws when npm fails. */
export function install(folders: readonly PackageFolder[]): void {
  for (const folder of folders) {
    const { path, what, platform, runsScripts } = folder;
    if (platform !== null && platform !== `${process.platform}-${process.arch}`) continue;
    if (isInstalled(folder)) continue;
    console.error(`npm --prefix ${path} ci: ${what}`);
    const args = ['ci', '--no-audit', '--no-fund', '--loglevel=error', ...(runsScripts ? [] : ['--ignore-scripts'])];
    const { status } = spawnSync('npm', args, { cwd: join(root, path), stdio: ['ignore', 'ignore', 'inherit'] });
    if (status !== 0) throw new Error(`npm --prefix ${path} ci failed`);
    if (path === SUITES) joinSuites();
  }
}

/**
 * One copy of each package that both have in the same version: an object of one copy is no instance of the other's class. Then files below
 * `test` get what the manifest names, and nothing that only came along with it.
 */
function joinSuites(): void {
  const own = join(root, SUITES, 'node_modules');
  for (const name of topPackages(own)) {
    const shared = join(root, 'node_modules', name, 'package.json');
    if (existsSync(shared) && versionIn(shared) === versionIn(join(own, name, 'package.json')))
      rmSync(join(own, name), { recursive: true });
  }
  const links = join(root, 'test/node_modules');
  rmSync(links, { recursive: true, force: true });
  for (const name of ofSuites.filter((one) => existsSync(join(own, one)))) {
    const link = join(links, name);
    mkdirSync(dirname(link), { recursive: true });
    symlinkSync(relative(dirname(link), join(own, name)), link);
  }
}

/** Gives a folder anywhere all packages of the program and of the suites, as a reader has them who installs what a page names. */
export function linkPackages(folder: string): void {
  for (const place of ['', 'test']) {
    const from = join(root, place, 'node_modules');
    if (!existsSync(from)) throw new Error(`packages of the suites are not installed: ${HOW_TO_INSTALL}`);
    for (const name of topPackages(from)) {
      const link = join(folder, 'node_modules', name);
      mkdirSync(dirname(link), { recursive: true });
      if (!existsSync(link)) symlinkSync(join(from, name), link);
    }
  }
}

const versionIn = (manifest: string) => (JSON.parse(readFileSync(manifest, 'utf8')) as { version: string }).version;

function topPackages(folder: string): string[] {
  return readdirSync(folder)
    .filter((name) => !name.startsWith('.'))
    .flatMap((name) => (name.startsWith('@') ? readdirSync(join(folder, name)).map((one) => `${name}/${one}`) : [name]))
    .filter((name) => existsSync(join(folder, name, 'package.json')));
}

const IMPORT = /^(?:import|export)(?! type\b)[^;]*?(?:from )?'([^']+)';?$/gm;

/** By path; what is being read counts as empty, so that circles end. */
const needed = new Map<string, ReadonlySet<string>>();

/** The packages of the suites without which a test file does not load: what it imports, and what the files import that it imports. */
function packagesNeeded(file: string): ReadonlySet<string> {
  const known = needed.get(file);
  if (known !== undefined) return known;
  const names = new Set<string>();
  needed.set(file, names);
  const text = readFileSync(file, 'utf8');
  for (const [, name = ''] of text.matchAll(IMPORT)) {
    const own = ofSuites.find((one) => name === one || name.startsWith(`${one}/`));
    if (own !== undefined) names.add(own);
    const path = resolve(dirname(file), name);
    if (name.startsWith('.') && existsSync(path) && statSync(path).isFile())
      for (const one of packagesNeeded(path)) names.add(one);
  }
  return names;
}

/**
 * Why a test file cannot run here, or null: it needs packages of the suites that are not installed. With REQUIRE_PACKAGES=1 a reason is an error.
 */
export function packagesMissing(file: string): string | null {
  const missing = [...packagesNeeded(resolve(root, file))].filter((name) => packageFolder(name) === null);
  return missing.length === 0 ? null : packageAbsent(file, missing);
}

/** Where a package is installed, as a file below `test` finds it; null: nowhere. */
export function packageFolder(name: string): string | null {
  const folders = ['test', ''].map((place) => join(root, place, 'node_modules', name));
  return folders.find((folder) => existsSync(join(folder, 'package.json'))) ?? null;
}

/** The reason, which is also said. With REQUIRE_PACKAGES=1 it is an error. */
export function packageAbsent(what: string, names: readonly string[]): string {
  const reason = `${what} needs ${names.toSorted().join(', ')}, which npm ci does not bring: ${HOW_TO_INSTALL}`;
  if (process.env['REQUIRE_PACKAGES'] === '1') throw new Error(reason);
  console.error(`SKIPPED: ${reason}`);
  return reason;
}

/** A module of a package of the suites, for single tests of a file that runs without it. */
export interface OwnPackage<T> {
  /** Why tests that use it cannot run here, or false. */
  readonly skip: string | false;
  /** Throws when it is not installed. */
  readonly module: T;
}

/** Loads a package of `test/packages`. If it is missing the test is skipped; with REQUIRE_PACKAGES=1 that is an error. */
export async function loadPackage<T>(name: string, load: () => Promise<T>): Promise<OwnPackage<T>> {
  try {
    return { skip: false, module: await load() };
  } catch (error) {
    if ((error as { code?: string }).code !== 'ERR_MODULE_NOT_FOUND') throw error;
    const skip = packageAbsent('a test', [name]);
    return {
      skip,
      get module(): T {
        throw new Error(skip);
      },
    };
  }
}
