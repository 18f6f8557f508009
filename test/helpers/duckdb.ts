/** DuckDB in this process, which reads the Parquet files that we write. */
import { createRequire } from 'node:module';

const load = createRequire(new URL('./duckdb/package.json', import.meta.url));

/** Why DuckDB cannot be asked here, or null. With REQUIRE_DUCKDB=1 a reason is an error. */
export function duckdbMissing(): string | null {
  try {
    load('@duckdb/node-api');
    return null;
  } catch (error) {
    const reason = `DuckDB does not load (${String(error).split('\n')[0]}): npm --prefix test/helpers/duckdb ci`;
    if (process.env['REQUIRE_DUCKDB'] === '1') throw new Error(reason);
    console.error(`SKIPPED: ${reason}`);
    return reason;
  }
}

interface Connection {
  runAndReadAll(sql: string): Promise<{ getRows(): unknown[][] }>;
}

/** Asks a new database in memory. */
export async function openDuckdb(): Promise<(sql: string) => Promise<unknown[][]>> {
  const { DuckDBInstance } = load('@duckdb/node-api') as {
    DuckDBInstance: { create(): Promise<{ connect(): Promise<Connection> }> };
  };
  const connection = await (await DuckDBInstance.create()).connect();
  return async (sql) => (await connection.runAndReadAll(sql)).getRows();
}
