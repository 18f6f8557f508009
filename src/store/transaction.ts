import { Kysely } from 'kysely';
import { CodedError } from '../lib/coded-error.ts';
import type { Dialect, SqlValue, StoreTx } from '../ports/store.ts';
import { type Connection, createDialect } from './dialect.ts';

/** One transaction from the side of its engine, which begins and ends it. */
export interface Transaction {
  /** Runs the work; its handle refuses to work afterwards. Rejects with the error of a failed statement, whoever caught it. */
  run<T>(work: (tx: StoreTx) => Promise<T>): Promise<T>;
  /** Runs what was registered with `onCommit`. */
  committed(): void;
}

/** Inserts rows over the connection of the transaction; returns how many were written. */
export type InsertRows = (
  table: string,
  columns: readonly string[],
  rows: readonly (readonly SqlValue[])[],
  ignoreConflicts: boolean,
) => Promise<number>;

/**
 * The handle that `Store.write` gives to its work. It works until the transaction ends and never longer. One failed statement spoils
 * the transaction on both engines: SQLite may have rolled it back already, and PostgreSQL would answer a later commit with a
 * roll-back and no error.
 */
export function createTransaction(dialect: Dialect, connection: Connection, insertRows: InsertRows): Transaction {
  const afterCommit: (() => void)[] = [];
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
        return await insertRows(table, columns, rows, onConflict === 'ignore');
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
      for (const fn of afterCommit) fn();
    },
  };
}
