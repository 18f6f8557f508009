import type { SqliteConnection } from './connection.ts';
import { sqliteError } from './errors.ts';

/** Tells whether the database was changed: a connection that does nothing else, opened when it is first asked. */
export interface VersionReader {
  read(): number;
  close(): void;
}

export function createVersionReader(open: () => SqliteConnection): VersionReader {
  let connection: SqliteConnection | null = null;
  let ask = (): number => {
    connection = open();
    // The number of a connection changes with every commit of another one, and this one makes none.
    const statement = connection.db.prepare<[], number>('pragma data_version').pluck();
    ask = () => statement.get() as number;
    return ask();
  };
  return {
    read() {
      try {
        return ask();
      } catch (error) {
        throw sqliteError(error);
      }
    },
    close: () => connection?.close(),
  };
}
