/** The SQLite library that the program uses under this version of Node, for tests that open files themselves. */
import { createRequire } from 'node:module';
import type BetterSqlite from 'better-sqlite3';
import { libraryPath } from '../../src/store/sqlite-connection.ts';

export const Database = createRequire(import.meta.url)(libraryPath()) as typeof BetterSqlite;
