import type { QueryResult } from 'kysely';
import type pg from 'pg';
import { type Connection, insertText } from '../dialect.ts';
import type { InsertRows } from '../transaction.ts';
import { postgresError } from './errors.ts';

export interface PostgresConnection extends Connection {
  readonly client: pg.PoolClient;
}

export function createPostgresConnection(client: pg.PoolClient): PostgresConnection {
  return {
    client,
    async query(sql, parameters): Promise<QueryResult<unknown>> {
      try {
        const { command, rows, rowCount } = await client.query(sql, bindable(parameters));
        const isChange = command === 'INSERT' || command === 'UPDATE' || command === 'DELETE' || command === 'MERGE';
        return isChange ? { rows, numAffectedRows: BigInt(rowCount ?? 0) } : { rows };
      } catch (error) {
        throw postgresError(error);
      }
    },
    stream(sql, parameters, chunkSize) {
      return cursorRows(this, sql, parameters, chunkSize);
    },
  };
}

/** The server keeps the rows (`with hold` also outside a transaction), so that this process never holds them all. */
async function* cursorRows(connection: Connection, sql: string, parameters: readonly unknown[], chunkSize: number) {
  await connection.query(`declare parhelion_stream cursor with hold for ${sql}`, parameters);
  try {
    for (;;) {
      const { rows } = await connection.query(`fetch ${Math.max(1, Math.trunc(chunkSize))} from parhelion_stream`, []);
      if (rows.length > 0) yield rows;
      if (rows.length < chunkSize) return;
    }
  } finally {
    await connection.query('close parhelion_stream', []).catch(() => undefined);
  }
}

/** The protocol counts parameters in 16 bits. */
const MAX_PARAMETERS = 65_535;
const MAX_ROWS = 1_000;

export function postgresInsert(connection: PostgresConnection): InsertRows {
  return async (table, columns, rows, ignoreConflicts) => {
    const perStatement = Math.max(1, Math.min(MAX_ROWS, Math.floor(MAX_PARAMETERS / columns.length)));
    let written = 0;
    for (let start = 0; start < rows.length; start += perStatement) {
      const piece = rows.slice(start, start + perStatement);
      const text = insertText(table, columns, piece.length, ignoreConflicts, (position) => `$${position}`);
      const { numAffectedRows } = await connection.query(text, piece.flat());
      written += Number(numAffectedRows ?? 0n);
    }
    return written;
  };
}

type TypeId = Parameters<typeof pg.types.getTypeParser>[0];

const BOOL = 16;
const INT8 = 20;
const NUMERIC = 1700;

type Parse = (text: string) => unknown;
interface Parsers {
  getTypeParser(oid: TypeId, format?: 'text' | 'binary'): unknown;
}

/**
 * Makes PostgreSQL answer with the same JavaScript values as SQLite: whole numbers as numbers, booleans as 0 and 1.
 * `sum` of bigint columns is numeric and becomes a number too.
 */
export function sameValues(defaults: Parsers): Parsers {
  const own = new Map<number, Parse>([
    [BOOL, (text) => (text === 't' ? 1 : 0)],
    [INT8, Number],
    [NUMERIC, Number],
  ]);
  return {
    getTypeParser: (oid, format) =>
      (format === 'binary' ? undefined : own.get(oid)) ?? defaults.getTypeParser(oid, format),
  };
}

/** Booleans are integers in our tables. */
function bindable(parameters: readonly unknown[]): unknown[] {
  if (!parameters.some((value) => typeof value === 'boolean')) return parameters as unknown[];
  return parameters.map((value) => (typeof value === 'boolean' ? Number(value) : value));
}
