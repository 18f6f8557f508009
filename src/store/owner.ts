import { randomUUID } from 'node:crypto';
import { existsSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type Database from 'better-sqlite3';
import type { Owner } from '../ports/processes.ts';
import { openDatabase, prepareFiles } from './sqlite-connection.ts';

const FOLDER = 'owners';
const ID = /^[0-9a-f-]{36}$/;

/**
 * A locked file per process in the data folder. The lock, not the process id, shows that a process is alive: this also works with
 * containers that share the folder, reused process ids and restarts of the machine. SQLite takes the lock, because Node.js has no API for
 * it. Null if no file can be locked: then dead processes cannot be detected, and their leases must expire.
 */
export function openOwner(dataDir: string): Owner | null {
  const folder = join(dataDir, FOLDER);
  const id = randomUUID();
  const own = lock(join(folder, id), true);
  if (own === null) return null;
  const seenGone = new Set<string>();
  const goneFile = (name: string): Database.Database | null =>
    name !== id && ID.test(name) && existsSync(join(folder, name)) ? lock(join(folder, name), false) : null;
  return {
    id,
    isGone(other) {
      const gone = goneFile(other);
      gone?.close();
      return gone !== null;
    },
    forgetGone() {
      for (const name of readdirSync(folder)) {
        const gone = goneFile(name);
        if (gone === null) continue;
        if (seenGone.has(name)) rmSync(join(folder, name), { force: true });
        seenGone.add(name);
        gone.close();
      }
    },
    close() {
      rmSync(join(folder, id), { force: true });
      own.close();
    },
  };
}

/** Null if another process holds the lock, or if that is unknown. An empty database can be locked like any other. */
function lock(path: string, isNew: boolean): Database.Database | null {
  let db: Database.Database | null = null;
  try {
    if (isNew) prepareFiles(path);
    db = openDatabase(path, { timeout: 0, fileMustExist: true });
    db.exec('begin exclusive');
    return db;
  } catch {
    db?.close();
    return null;
  }
}
