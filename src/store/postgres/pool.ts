import type pg from 'pg';
import { postgresError } from './errors.ts';

export interface PoolOptions {
  readonly url: string;
  readonly max: number;
  readonly statementTimeoutMs: number;
  readonly readOnly: boolean;
}

export interface ConnectionPool {
  /** Errors: STORE_UNREACHABLE. */
  acquire(): Promise<pg.PoolClient>;
  /** A client that failed is thrown away instead of being used again. */
  release(client: pg.PoolClient, failed?: boolean): void;
  close(): Promise<void>;
}

const CONNECT_TIMEOUT_MS = 10_000;
const IDLE_TIMEOUT_MS = 30_000;
/** A process that is paused or cut off within a transaction must not hold up for long who takes its place. */
const IDLE_WRITER_MS = 15_000;
/** The client's own patience, for a server that has vanished without closing its sockets. */
const SILENCE_EXTRA_MS = 5_000;

export function createPool(library: typeof pg, types: pg.CustomTypesConfig, options: PoolOptions): ConnectionPool {
  const pool = new library.Pool({
    connectionString: options.url,
    max: options.max,
    types,
    application_name: 'parhelion',
    keepAlive: true,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    idleTimeoutMillis: IDLE_TIMEOUT_MS,
    statement_timeout: options.statementTimeoutMs,
    idle_in_transaction_session_timeout: options.readOnly
      ? options.statementTimeoutMs
      : Math.min(options.statementTimeoutMs, IDLE_WRITER_MS),
    query_timeout: options.statementTimeoutMs + SILENCE_EXTRA_MS,
    onConnect: async (client) => {
      if (options.readOnly) await client.query('set default_transaction_read_only = on');
    },
  });
  // A lost idle connection is replaced by the next acquire; without a listener the error would end the process.
  pool.on('error', () => {});

  return {
    async acquire() {
      try {
        const client = await pool.connect();
        if (client.listenerCount('error') === 0) client.on('error', () => {});
        return client;
      } catch (error) {
        throw postgresError(error);
      }
    },
    release: (client, failed = false) => client.release(failed),
    close: () => pool.end(),
  };
}
