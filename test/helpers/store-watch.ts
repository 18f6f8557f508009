import type { KyselyPlugin } from 'kysely';
import type { Dialect, Store } from '../../src/ports/store.ts';

export interface StoreWatch {
  /** Wraps a store: its statements are counted while they run. */
  of(store: Store): Store;
  /** Waits until nothing runs any more that needs no time of a clock moved by hand. */
  readonly settle: () => Promise<void>;
}

const tick = () => new Promise<void>((resolve) => setImmediate(() => setImmediate(resolve)));

/**
 * A database server answers in real time, which a clock moved by hand would outrun: between two steps its statements are waited
 * for. SQLite answers before the next tick.
 */
export function createStoreWatch(dialect: Dialect): StoreWatch {
  if (dialect === 'sqlite') return { of: (store) => store, settle: tick };
  let running = 0;
  const counting: KyselyPlugin = {
    transformQuery({ node }) {
      running += 1;
      return node;
    },
    async transformResult({ result }) {
      running -= 1;
      return result;
    },
  };
  return {
    of: (store) => ({
      ...store,
      read: store.read.withPlugin(counting),
      async write(work) {
        running += 1;
        try {
          return await store.write(work);
        } finally {
          running -= 1;
        }
      },
    }),
    async settle() {
      await tick();
      while (running > 0) {
        await new Promise((resolve) => setTimeout(resolve, 1));
        await tick();
      }
    },
  };
}
