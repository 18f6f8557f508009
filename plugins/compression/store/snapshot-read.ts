import type { Store } from '../../../src/kernel/plugin.ts';
import type { Db } from './tables.ts';

export interface Seen<T> {
  /** Newest indexed slot, 0 before the first. */
  readonly slot: number;
  readonly value: T;
}

/** Runs queries that see one state of the store, and tells at which slot it stands. Errors: those of the store and of `work`. */
export async function readAtOneSlot<T>(store: Store, work: (db: Db, slot: number) => Promise<T>): Promise<Seen<T>> {
  return await store.read.transaction().execute(async (transaction) => {
    const db = transaction as Db;
    const head = await db.selectFrom('compression_head').select('slot').executeTakeFirst();
    const slot = head?.slot ?? 0;
    return { slot, value: await work(db, slot) };
  });
}
