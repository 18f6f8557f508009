import { sql } from 'kysely';
import type { StoreTx } from '../../../src/ports/store.ts';
import type { Db } from './tables.ts';

const KEYS_PER_QUERY = 500;

const textOf = (key: Uint8Array): string => Buffer.from(key.buffer, key.byteOffset, key.byteLength).toString('latin1');

/** The numbers of those keys that have one, by the bytes as latin1 text. */
export async function findKeys(db: Db, keys: Iterable<Uint8Array>): Promise<Map<string, number>> {
  const found = new Map<string, number>();
  const wanted = [...new Map([...keys].map((key) => [textOf(key), key])).values()];
  for (let at = 0; at < wanted.length; at += KEYS_PER_QUERY) {
    const part = wanted.slice(at, at + KEYS_PER_QUERY).map((key) => Buffer.from(key));
    const rows = await db.selectFrom('wallet_keys').select(['id', 'key']).where('key', 'in', part).execute();
    for (const { id, key } of rows) found.set(textOf(key), id);
  }
  return found;
}

/** Gives every key a number that stays. The state's row is locked until the commit where new ones are made. */
export async function takeKeys(tx: StoreTx, keys: Iterable<Uint8Array>): Promise<KeyNumbers> {
  const db = tx.db as Db;
  const wanted = new Map([...keys].map((key) => [textOf(key), key]));
  let found = await findKeys(db, wanted.values());
  let missing = [...wanted].filter(([text]) => !found.has(text));
  if (missing.length > 0) {
    await lockState(db);
    // Another process may have made them before it gave the lock away.
    found = await findKeys(db, wanted.values());
    missing = [...wanted].filter(([text]) => !found.has(text));
    const row = await db
      .updateTable('wallet_state')
      .set({ next_key: sql`next_key + ${missing.length}` })
      .where('id', '=', 1)
      .returning('next_key')
      .executeTakeFirstOrThrow();
    let id = row.next_key - missing.length;
    const rows = missing.map(([text, key]) => {
      found.set(text, id);
      return [id++, Buffer.from(key)];
    });
    await tx.insertMany('wallet_keys', ['id', 'key'], rows);
  }
  return { of: (key) => found.get(textOf(key)) ?? -1 };
}

export interface KeyNumbers {
  /** -1 for a key that was not asked for. */
  of(key: Uint8Array): number;
}

async function lockState(db: Db): Promise<void> {
  await db.updateTable('wallet_state').set({ version: sql`version` }).where('id', '=', 1).execute();
}
