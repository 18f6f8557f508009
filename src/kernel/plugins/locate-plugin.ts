import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { dirname, isAbsolute, join, resolve } from 'node:path';
import { isPlainObject } from '../../lib/plain-object.ts';

/** Where plugins are looked for. */
export interface PluginPlaces {
  /** Folder of the built-in plugins: a folder per plugin with `index.ts` or `index.js`. */
  readonly builtInDir: string;
  /** Where relative paths start: the folder of the configuration file. */
  readonly baseDir: string;
  /** Where the search for packages starts. */
  readonly packageDir: string;
}

/** The entry file of a plugin named in the configuration, or null: a built-in name, a path (`./…`, `/…`), a package name. */
export function locatePlugin(use: string, places: PluginPlaces): string | null {
  if (use.startsWith('.') || isAbsolute(use)) return entryOf(resolve(places.baseDir, use));
  if (/^[a-z][a-z0-9-]*$/.test(use)) {
    const builtIn = indexOf(join(places.builtInDir, use));
    if (builtIn !== null) return builtIn;
  }
  const parts = use.split('/');
  const depth = use.startsWith('@') ? 2 : 1;
  if (parts.length !== depth || parts.some((part) => part === '' || part === '..')) return null;
  for (let dir = resolve(places.packageDir); ; dir = dirname(dir)) {
    const found = join(dir, 'node_modules', use);
    if (existsSync(found)) return entryOf(found);
    if (dirname(dir) === dir) return null;
  }
}

/** Names of all built-in plugins, sorted. */
export function builtInNames(builtInDir: string): string[] {
  if (!existsSync(builtInDir)) return [];
  return readdirSync(builtInDir, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && indexOf(join(builtInDir, entry.name)) !== null)
    .map((entry) => entry.name)
    .sort();
}

function entryOf(path: string): string | null {
  if (!existsSync(path)) return null;
  if (statSync(path).isFile()) return path;
  const manifest = join(path, 'package.json');
  if (existsSync(manifest)) {
    const entry = manifestEntry(JSON.parse(readFileSync(manifest, 'utf8')));
    if (entry !== null) return existsSync(join(path, entry)) ? join(path, entry) : null;
  }
  return indexOf(path);
}

/** `exports["."]` for importers, else `main`. */
function manifestEntry(manifest: unknown): string | null {
  if (!isPlainObject(manifest)) return null;
  const { exports, main } = manifest;
  const root = isPlainObject(exports) && '.' in exports ? exports['.'] : exports;
  const entry = condition(root) ?? main;
  return typeof entry === 'string' ? entry : null;
}

function condition(target: unknown): unknown {
  if (!isPlainObject(target)) return target;
  for (const [name, inner] of Object.entries(target)) {
    if (name === 'import' || name === 'node' || name === 'default') return condition(inner);
  }
  return undefined;
}

function indexOf(dir: string): string | null {
  return ['index.ts', 'index.js', 'index.mjs'].map((name) => join(dir, name)).find((path) => existsSync(path)) ?? null;
}
