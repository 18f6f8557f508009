import { createRequire } from 'node:module';
import type Database from 'better-sqlite3';

const load = createRequire(import.meta.url);

/**
 * Which better-sqlite3: 13 does not run on Node 20, and 12 aborts the process from Node 24.19 on, when a statement is collected. Both have
 * the same interface.
 */
const NAME = Number.parseInt(process.versions.node, 10) >= 24 ? 'better-sqlite3-13' : 'better-sqlite3';

/** Path of the library, for a process of its own. */
export const libraryPath = (): string => load.resolve(NAME);

export function openDatabase(path: string, options: Database.Options): Database.Database {
  const Library = load(NAME) as typeof Database;
  return new Library(path, options);
}
