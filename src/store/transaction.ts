import {
  type CompiledQuery,
  type DatabaseConnection,
  Kysely,
  type Dialect as KyselyDialect,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
  type QueryResult,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
  sql,
} from 'kysely';
import { CodedError } from '../lib/coded-error.ts';
import type { Dialect, OnConflict, Queries, SqlValue, Store, StoreTx } from '../ports/store.ts';
import { isPromise } from '../runtime/waiting.ts';

/** One transaction as seen by its engine, which begins and ends it. */
export interface Transaction {
  /** Runs the work; its handle is unusable afterwards. Rejects with the error of a failed statement even if the work caught it. */
  run<T>(work: (tx: StoreTx) => Promise<T>): Promise<T>;
  /** Runs the callbacks registered with `onCommit`; returns the promises of theirs. */
  committed(): readonly Promise<unknown>[];
}

/**
 * Inserts rows; returns the number of rows written. Statements after the first one go over `connection`, which refuses them when the
 * transaction has ended meanwhile: the server would commit each of them by itself.
 */
export type InsertRows = (
  connection: Connection,
  table: string,
  columns: readonly string[],
  rows: readonly (readonly SqlValue[])[],
  onConflict: OnConflict,
) => Promise<number>;

/**
 * The handle that `Store.write` passes to its work; it is valid only until the transaction ends. A failed statement aborts the transaction
 * on both engines: SQLite may already have rolled it back, and PostgreSQL would answer a later commit with a rollback but no error.
 */
export function createTransaction(dialect: Dialect, connection: Connection, insertRows: InsertRows): Transaction {
  const afterCommit: (() => unknown)[] = [];
  let isOpen = true;
  let spoiled: { readonly error: unknown } | null = null;

  const checkOpen = () => {
    if (!isOpen) throw new CodedError('STORE_CLOSED', 'a transaction handle was used after its transaction ended');
    if (spoiled !== null) throw spoiled.error;
  };
  const spoil = (error: unknown) => {
    spoiled ??= { error };
    return spoiled.error;
  };
  const guarded: Connection = {
    async query(sql, parameters) {
      checkOpen();
      try {
        return await connection.query(sql, parameters);
      } catch (error) {
        throw spoil(error);
      }
    },
    async *stream(sql, parameters, chunkSize) {
      checkOpen();
      yield* connection.stream(sql, parameters, chunkSize);
    },
  };
  const acquire = () => Promise.resolve(guarded);
  const db = new Kysely({ dialect: createDialect(dialect, { acquire, release() {}, begin: null }) });

  const tx: StoreTx = {
    dialect,
    db,
    async insertMany(table, columns, rows, onConflict = 'fail') {
      checkOpen();
      if (rows.length === 0) return 0;
      try {
        return await insertRows(guarded, table, columns, rows, onConflict);
      } catch (error) {
        throw spoil(error);
      }
    },
    onCommit(fn) {
      checkOpen();
      afterCommit.push(fn);
    },
  };
  return {
    async run(work) {
      try {
        const result = await work(tx);
        checkOpen();
        return result;
      } finally {
        isOpen = false;
      }
    },
    committed() {
      return afterCommit.map((fn) => fn()).filter(isPromise);
    },
  };
}

/** One database connection of either engine. Its errors are already mapped to STORE_* codes. */
export interface Connection {
  query(sql: string, parameters: readonly unknown[]): Promise<QueryResult<unknown>>;
  /** Rows in pieces of at most `chunkSize`. */
  stream(sql: string, parameters: readonly unknown[], chunkSize: number): AsyncIterable<readonly unknown[]>;
}

/** Source of the connections of a query builder. */
interface Connections {
  acquire(): Promise<Connection>;
  release(connection: Connection): void;
  /** Statement that begins a transaction of the builder; null: such transactions are refused. */
  readonly begin: string | null;
}

interface HeldConnection extends DatabaseConnection {
  readonly held: Connection;
}

/** A Kysely dialect on connections that it does not own. */
export function createDialect(dialect: Dialect, connections: Connections): KyselyDialect {
  const isSqlite = dialect === 'sqlite';
  return {
    createAdapter: () => (isSqlite ? new SqliteAdapter() : new PostgresAdapter()),
    createIntrospector: (db) => (isSqlite ? new SqliteIntrospector(db) : new PostgresIntrospector(db)),
    createQueryCompiler: () => (isSqlite ? new SqliteQueryCompiler() : new PostgresQueryCompiler()),
    createDriver: () => ({
      async init() {},
      async acquireConnection() {
        return hold(await connections.acquire());
      },
      async releaseConnection(connection) {
        connections.release((connection as HeldConnection).held);
      },
      async beginTransaction(connection) {
        if (connections.begin === null) throw new Error('a write transaction is running already; use its own handle');
        await (connection as HeldConnection).held.query(connections.begin, []);
      },
      async commitTransaction(connection) {
        await (connection as HeldConnection).held.query('commit', []);
      },
      async rollbackTransaction(connection) {
        await (connection as HeldConnection).held.query('rollback', []);
      },
      async destroy() {},
    }),
  };
}

function hold(connection: Connection): HeldConnection {
  return {
    held: connection,
    executeQuery: <R>(query: CompiledQuery) => connection.query(query.sql, query.parameters) as Promise<QueryResult<R>>,
    async *streamQuery<R>(query: CompiledQuery, chunkSize = 100): AsyncIterableIterator<QueryResult<R>> {
      for await (const rows of connection.stream(query.sql, query.parameters, chunkSize)) yield { rows: rows as R[] };
    },
  };
}

/** Text of a multi-row insert; `placeholder` receives the position of each value, counted from 1. */
export function insertText(
  table: string,
  columns: readonly string[],
  rowCount: number,
  onConflict: OnConflict,
  placeholder: (position: number) => string,
): string {
  let position = 0;
  const rows = Array.from({ length: rowCount }, () => {
    const values = columns.map(() => {
      position += 1;
      return placeholder(position);
    });
    return `(${values.join(',')})`;
  });
  return `${insertInto(table, columns)} values ${rows.join(',')}${conflictText(onConflict)}`;
}

export const insertInto = (table: string, columns: readonly string[]): string =>
  `insert into ${quote(table)} (${columns.map(quote).join(',')})`;

/** What follows the rows. */
export function conflictText(onConflict: OnConflict): string {
  if (onConflict === 'fail') return '';
  if (onConflict === 'ignore') return ' on conflict do nothing';
  const set = onConflict.set.map((column) => `${quote(column)} = excluded.${quote(column)}`);
  return ` on conflict (${onConflict.key.map(quote).join(',')}) do update set ${set.join(',')}`;
}

export function quote(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

interface Beat {
  readonly beat: number;
}

/** Increments a row, and reads it back on another connection. Errors: STORE_IO if the commit is not visible, and those of a write. */
export async function beat(write: Store['write'], read: Queries): Promise<void> {
  const count = await write(async ({ db }) => {
    await sql`create table if not exists parhelion_probe (id integer primary key, beat bigint not null)`.execute(db);
    const { rows } = await sql<Beat>`
      insert into parhelion_probe (id, beat) values (1, 1)
      on conflict (id) do update set beat = parhelion_probe.beat + 1 returning beat`.execute(db);
    return rows[0]?.beat ?? 0;
  });
  const { rows } = await sql<Beat>`select beat from parhelion_probe where id = 1`.execute(read);
  const seen = rows[0]?.beat ?? 0;
  if (count < 1 || seen < count) throw new CodedError('STORE_IO', 'a committed row could not be read back');
}
