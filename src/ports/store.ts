import type { Kysely } from 'kysely';

export type Dialect = 'sqlite' | 'postgres';

/**
 * Tables are declared by the migrations of the kernel and of plugins, so the port does not know them.
 * A module narrows with `db as Queries<MyTables>` once, where it takes the handle.
 */
// biome-ignore lint/suspicious/noExplicitAny: the schema is open by design; see above.
export type Queries<Tables = any> = Kysely<Tables>;

export type SqlValue = string | number | bigint | boolean | Uint8Array | null;

/**
 * The one database of the daemon. Integers of up to 2^53 come back as numbers, blobs as Buffer.
 * Columns use INTEGER/BIGINT for numbers and times (unix milliseconds unless the name says otherwise), BLOB/BYTEA for
 * bytes, TEXT for strings and JSON; booleans are 0/1 integers on both engines.
 */
export interface Store {
  readonly dialect: Dialect;
  /** Reads committed data on connections of their own: never waits for a writer of this process. */
  readonly read: Queries;
  /**
   * Another number than before whenever anything was committed since, by this process or another one; null where the engine does not
   * tell that cheaply (PostgreSQL). Errors: those of a read.
   */
  version(): number | null;
  /**
   * One read-write transaction (SQLite: BEGIN IMMEDIATE; PostgreSQL: READ COMMITTED). Commits when `work` resolves, rolls
   * back when it rejects. On SQLite the writers of a process queue; on PostgreSQL they run beside each other, so rows that are
   * read to be written need a lock (`forUpdate`) or one statement. `work` may run again after a serialisation failure, so it must
   * have no effect outside the transaction; a write inside a write would wait for itself. A failed statement spoils the whole
   * transaction, also when `work` catches its error. Errors: STORE_BUSY, STORE_FULL, STORE_READ_ONLY, STORE_IO,
   * STORE_UNREACHABLE, STORE_CONFLICT (unique key), STORE_CONSTRAINT, STORE_CLOSED.
   */
  write<T>(work: (tx: StoreTx) => Promise<T>): Promise<T>;
  /** Proves that a commit reaches the disk: writes one row and reads it back. */
  probe(): Promise<void>;
  close(): Promise<void>;
}

/** A running read-write transaction. */
export interface StoreTx {
  readonly dialect: Dialect;
  readonly db: Queries;
  /**
   * Inserts many rows with as few statements as the engine allows. Values are given in the order of `columns`; rows that
   * hit a unique key are left out when `onConflict` is `ignore`. Returns the number of rows written.
   */
  insertMany(
    table: string,
    columns: readonly string[],
    rows: readonly (readonly SqlValue[])[],
    onConflict?: 'fail' | 'ignore',
  ): Promise<number>;
  /** Runs after the commit, in the order of registration; dropped on roll-back. Must not throw. */
  onCommit(fn: () => void): void;
}

/** One step of a schema. Versions of a scope count 1, 2, 3 without holes and never change once released. */
export interface Migration {
  readonly version: number;
  /** Short and in words: `create deliveries`. */
  readonly name: string;
  /** Whether binaries that do not know this step must refuse to run on the migrated store. */
  readonly breaking: boolean;
  up(tx: StoreTx): Promise<void>;
}

/** The migrations of one owner of tables. */
export interface MigrationScope {
  readonly scope: string;
  readonly migrations: readonly Migration[];
}
