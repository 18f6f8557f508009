import type { QueryResult } from 'kysely';
import type pg from 'pg';
import type { Connection } from '../dialect.ts';
import { postgresError } from './errors.ts';
import { bindable } from './values.ts';

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
