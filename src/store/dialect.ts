import {
  type CompiledQuery,
  type DatabaseConnection,
  type Dialect as KyselyDialect,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
  type QueryResult,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
} from 'kysely';
import type { Dialect } from '../ports/store.ts';

/** One database connection as both engines offer it. Errors are mapped to STORE_* codes already. */
export interface Connection {
  query(sql: string, parameters: readonly unknown[]): Promise<QueryResult<unknown>>;
  /** Rows in pieces of at most `chunkSize`. */
  stream(sql: string, parameters: readonly unknown[], chunkSize: number): AsyncIterable<readonly unknown[]>;
}

/** Where a query builder gets its connections from. */
interface Connections {
  acquire(): Promise<Connection>;
  release(connection: Connection): void;
  /** Statement that begins a transaction of the builder itself; null where it has to be refused. */
  readonly begin: string | null;
}

interface HeldConnection extends DatabaseConnection {
  readonly held: Connection;
}

/** A Kysely dialect over connections that someone else owns. */
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

/** Text of a multi-row insert; `placeholder` is given the position of each value, counted from 1. */
export function insertText(
  table: string,
  columns: readonly string[],
  rowCount: number,
  ignoreConflicts: boolean,
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
  const names = columns.map(quote).join(',');
  return `insert into ${quote(table)} (${names}) values ${rows.join(',')}${ignoreConflicts ? ' on conflict do nothing' : ''}`;
}

function quote(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}
