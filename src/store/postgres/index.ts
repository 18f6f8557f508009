import { setTimeout as sleep } from 'node:timers/promises';
import { Kysely } from 'kysely';
import { CodedError } from '../../lib/coded-error.ts';
import type { Store, StoreTx } from '../../ports/store.ts';
import { createDialect } from '../dialect.ts';
import { beat } from '../probe.ts';
import { createTransaction } from '../transaction.ts';
import { createPostgresConnection, type PostgresConnection, postgresInsert, sameValues } from './connection.ts';
import { isSerialisationFailure, postgresError } from './errors.ts';
import { type ConnectionPool, createPool } from './pool.ts';

export interface PostgresStoreOptions {
  /** postgres://user:password@host:port/database; never logged. */
  readonly url: string;
  /** Connections in all; half of them write, and at least one reads. */
  readonly poolSize: number;
  readonly statementTimeoutMs: number;
}

const MAX_RUNS = 6;
const RERUN_PAUSE_MS = 10;

/**
 * Opens a PostgreSQL database and checks that it answers. Lost connections are replaced when they are next needed.
 * Errors: STORE_UNREACHABLE.
 */
export async function openPostgresStore(options: PostgresStoreOptions): Promise<Store> {
  const { default: library } = await import('pg');
  const types = sameValues(library.types);
  const shared = { url: options.url, statementTimeoutMs: options.statementTimeoutMs };
  const writing = Math.max(1, Math.floor(options.poolSize / 2));
  const writers = createPool(library, types, { ...shared, max: writing, readOnly: false });
  const readers = createPool(library, types, {
    ...shared,
    max: Math.max(1, options.poolSize - writing),
    readOnly: true,
  });
  const closePools = async () => {
    await Promise.all([readers.close(), writers.close()]);
  };
  try {
    readers.release(await readers.acquire());
    writers.release(await writers.acquire());
  } catch (error) {
    await closePools();
    throw error;
  }

  const read = new Kysely({
    dialect: createDialect('postgres', {
      acquire: async () => createPostgresConnection(await readers.acquire()),
      release: (held) => readers.release((held as PostgresConnection).client),
      // One snapshot for all statements, as SQLite's read transactions have it.
      begin: 'begin isolation level repeatable read read only',
    }),
  });
  const running = new Set<Promise<unknown>>();
  let closing: Promise<void> | null = null;
  const write = async <T>(work: (tx: StoreTx) => Promise<T>): Promise<T> => {
    if (closing !== null) throw new CodedError('STORE_CLOSED', 'the store is closed');
    const run = runWithReruns(() => runOnce(writers, work));
    running.add(run);
    try {
      return await run;
    } finally {
      running.delete(run);
    }
  };
  return {
    dialect: 'postgres',
    read,
    write,
    version: () => null,
    probe: () => beat(write, read),
    close() {
      closing ??= Promise.allSettled(running).then(closePools);
      return closing;
    },
  };
}

async function runOnce<T>(writers: ConnectionPool, work: (tx: StoreTx) => Promise<T>): Promise<T> {
  const client = await writers.acquire();
  const connection = createPostgresConnection(client);
  const transaction = createTransaction('postgres', connection, postgresInsert(connection));
  let result: T;
  try {
    await connection.query('begin isolation level read committed read write', []);
    result = await transaction.run(work);
    await connection.query('commit', []);
  } catch (error) {
    const rolledBack = await connection.query('rollback', []).then(
      () => true,
      () => false,
    );
    writers.release(client, !rolledBack);
    throw error;
  }
  writers.release(client);
  transaction.committed();
  return result;
}

/** A deadlock or serialisation failure has undone everything: the work runs again, each time after a longer, random pause. */
async function runWithReruns<T>(once: () => Promise<T>): Promise<T> {
  for (let run = 1; ; run += 1) {
    try {
      return await once();
    } catch (error) {
      const cause = error instanceof Error ? (error.cause ?? error) : error;
      if (run >= MAX_RUNS || !(isSerialisationFailure(error) || isSerialisationFailure(cause)))
        throw postgresError(error);
      await sleep(RERUN_PAUSE_MS * 2 ** run * Math.random());
    }
  }
}
