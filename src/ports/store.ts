import type { Kysely } from 'kysely';

export type Dialect = 'sqlite' | 'postgres';

/**
 * The migrations of the kernel and of plugins declare the tables, so this type does not know them.
 * A module narrows it once, where it receives the handle: `db as Queries<MyTables>`.
 */
// biome-ignore lint/suspicious/noExplicitAny: the schema is open by design; see above.
export type Queries<Tables = any> = Kysely<Tables>;

export type SqlValue = string | number | bigint | boolean | Uint8Array | null;

/**
 * The database of the daemon. Integers up to 2^53 are read as numbers, blobs as Buffer.
 * Columns use INTEGER/BIGINT for numbers and times (unix milliseconds unless the name says otherwise), BLOB/BYTEA for
 * bytes, TEXT for strings and JSON; booleans are 0/1 integers on both engines.
 */
export interface Store {
  readonly dialect: Dialect;
  /** Reads committed data on separate connections: never waits for a writer of this process. */
  readonly read: Queries;
  /**
   * A number that changes with every commit, of this or another process; null if the engine cannot report it cheaply (PostgreSQL). A commit
   * of another thread or process may go unseen for 1 ms.
   * Errors: those of a read.
   */
  version(): number | null;
  /**
   * One read-write transaction (SQLite: BEGIN IMMEDIATE; PostgreSQL: READ COMMITTED). Commits when `work` resolves, rolls
   * back when it rejects. On SQLite the writers of a process queue; on PostgreSQL they run concurrently, so a read-modify-write needs a
   * lock (`forUpdate`) or a single statement. `work` may run again after a serialization failure, so it must have no effects outside the
   * transaction. A nested write would deadlock. A failed statement aborts the whole transaction, even if `work` catches its error.
   * Errors: STORE_BUSY, STORE_FULL, STORE_READ_ONLY, STORE_IO,
   * STORE_UNREACHABLE, STORE_CONFLICT (unique key), STORE_CONSTRAINT, STORE_CLOSED.
   */
  write<T>(work: (tx: StoreTx) => Promise<T>): Promise<T>;
  /** Checks that commits reach the disk: writes one row and reads it back. */
  probe(): Promise<void>;
  close(): Promise<void>;
}

/** A running read-write transaction. */
export interface StoreTx {
  readonly dialect: Dialect;
  readonly db: Queries;
  /**
   * Inserts many rows with as few statements as the engine allows. Values are in the order of `columns`. With `onConflict` `ignore`, rows
   * that violate a unique key are skipped; with an `Update`, the row of that key gets the new values. Returns the number of rows written.
   */
  insertMany(
    table: string,
    columns: readonly string[],
    rows: readonly (readonly SqlValue[])[],
    onConflict?: OnConflict,
  ): Promise<number>;
  /**
   * Runs `fn` after the commit, in the order of registration; not on rollback. Must not throw. `write` returns when the promise of `fn`, if
   * it returns one, is resolved; other writes do not wait for it.
   */
  onCommit(fn: () => unknown): void;
}

export type OnConflict = 'fail' | 'ignore' | Update;

/** What happens to a row that is there already. */
export interface Update {
  /** Columns of a unique key. */
  readonly key: readonly string[];
  /** Columns that get the new values, at least one. */
  readonly set: readonly string[];
}

/** One step of a schema. The versions of a scope are 1, 2, 3, … without holes; a released step never changes. */
export interface Migration {
  readonly version: number;
  /** A short description: `create deliveries`. */
  readonly name: string;
  /** Whether binaries without this step must refuse to run on the migrated store. */
  readonly breaking: boolean;
  up(tx: StoreTx): Promise<void>;
}

/** The migrations of one owner of tables. */
export interface MigrationScope {
  readonly scope: string;
  readonly migrations: readonly Migration[];
}
