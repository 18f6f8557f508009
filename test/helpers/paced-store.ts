import type { Queries, Store } from '../../src/ports/store.ts';

/** A store whose transactions take time, so that those of a schedule overlap. */
export interface PacedStore {
  readonly store: Store;
  /** Resolves when no statement is under way, or soon: one may wait for a lock whose holder pauses. */
  quiet(): Promise<void>;
}

/** Real time: how long a statement may take, and how long when a transaction that pauses may hold its lock. */
const PATIENCE_MS = 5_000;
const LOCKED_PATIENCE_MS = 20;

/** `pause` is awaited before each transaction and before its commit. */
export function pacedStore(store: Store, pause: () => Promise<void>): PacedStore {
  let busy = 0;
  let pausing = 0;
  const counted = async <T>(work: () => Promise<T>): Promise<T> => {
    busy += 1;
    try {
      return await work();
    } finally {
      busy -= 1;
    }
  };
  const watch = (db: Queries): Queries => {
    const executor = db.getExecutor() as { executeQuery: (...args: unknown[]) => Promise<unknown> };
    const execute = executor.executeQuery.bind(executor);
    executor.executeQuery = (...args) => counted(() => execute(...args));
    return db;
  };
  const write: Store['write'] = async (work) => {
    await pause();
    return await counted(() =>
      store.write(async (tx) => {
        // The time of the work itself is that of its statements.
        busy -= 1;
        try {
          watch(tx.db);
          const insertMany: typeof tx.insertMany = (...args) => counted(() => tx.insertMany(...args));
          const result = await work({ ...tx, insertMany });
          pausing += 1;
          await pause().finally(() => {
            pausing -= 1;
          });
          return result;
        } finally {
          busy += 1;
        }
      }),
    );
  };
  return {
    store: { ...store, read: watch(store.read), write },
    async quiet() {
      const start = performance.now();
      const isOver = () => performance.now() - start > (pausing > 0 ? LOCKED_PATIENCE_MS : PATIENCE_MS);
      do await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
      while (busy > 0 && !isOver());
    },
  };
}
