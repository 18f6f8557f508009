import { CodedError, codeOf } from '../../lib/coded-error.ts';
import type { SqliteConnection } from './connection.ts';

export interface ReaderPool {
  /** Errors: STORE_CLOSED; what opening throws. */
  acquire(): Promise<SqliteConnection>;
  release(connection: SqliteConnection): void;
  close(): void;
}

/**
 * Read-only connections, opened when needed. A plain query holds one only while it runs, which is synchronous, so that mostly one
 * is open; a read transaction or a stream holds one longer. Askers beyond `max` wait: they are requests, which are bounded.
 */
export function createReaderPool(open: () => SqliteConnection, max: number): ReaderPool {
  const idle: SqliteConnection[] = [];
  const all = new Set<SqliteConnection>();
  const waiting: { resolve(connection: SqliteConnection): void; reject(error: Error): void }[] = [];
  let closed = false;

  return {
    async acquire() {
      if (closed) throw closedError();
      const free = idle.pop();
      if (free !== undefined) return free;
      if (all.size < max) {
        try {
          const connection = open();
          all.add(connection);
          return connection;
        } catch (error) {
          // Out of file descriptors: those that are open serve everybody, later.
          if (codeOf(error) !== 'STORE_DESCRIPTORS' || all.size === 0) throw error;
        }
      }
      return await new Promise((resolve, reject) => waiting.push({ resolve, reject }));
    },
    release(connection) {
      if (closed) return;
      const next = waiting.shift();
      if (next === undefined) idle.push(connection);
      else next.resolve(connection);
    },
    close() {
      closed = true;
      for (const { reject } of waiting.splice(0)) reject(closedError());
      for (const connection of all) connection.close();
    },
  };
}

function closedError(): CodedError {
  return new CodedError('STORE_CLOSED', 'the store is closed');
}
