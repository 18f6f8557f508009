import type { StoreTx } from '../../../src/ports/store.ts';
import type { Db } from './tables.ts';

/** Bound parameters of one statement; PostgreSQL and SQLite take many more. */
const CHUNK = 1_000;

/** The 32-byte keys of a webhook in the order in which they were given. */
export async function readAddresses(db: Db, number: number, limit?: number): Promise<Buffer[]> {
  let query = db.selectFrom('webhook_addresses').select('address').where('number', '=', number).orderBy('position');
  if (limit !== undefined) query = query.limit(limit);
  return (await query.execute()).map(({ address }) => address as Buffer);
}

/** The first addresses of many webhooks at once. */
export async function readFirstAddresses(
  db: Db,
  numbers: readonly number[],
  limit: number,
): Promise<ReadonlyMap<number, Buffer[]>> {
  const found = new Map<number, Buffer[]>();
  for (const number of numbers) found.set(number, await readAddresses(db, number, limit));
  return found;
}

/** Which of the keys the webhook already watches, as latin1 strings of their bytes. */
export async function presentAddresses(db: Db, number: number, keys: readonly Uint8Array[]): Promise<Set<string>> {
  const present = new Set<string>();
  for (let from = 0; from < keys.length; from += CHUNK) {
    const rows = await db
      .selectFrom('webhook_addresses')
      .select('address')
      .where('number', '=', number)
      .where('address', 'in', keys.slice(from, from + CHUNK).map(toBuffer))
      .execute();
    for (const { address } of rows) present.add(keyText(address));
  }
  return present;
}

export async function insertAddresses(
  tx: StoreTx,
  number: number,
  keys: readonly Uint8Array[],
  firstPosition: number,
): Promise<void> {
  await tx.insertMany(
    'webhook_addresses',
    ['number', 'address', 'position'],
    keys.map((key, at) => [number, toBuffer(key), firstPosition + at]),
  );
}

export async function removeAddresses(db: Db, number: number, keys: readonly Uint8Array[]): Promise<void> {
  for (let from = 0; from < keys.length; from += CHUNK) {
    await db
      .deleteFrom('webhook_addresses')
      .where('number', '=', number)
      .where('address', 'in', keys.slice(from, from + CHUNK).map(toBuffer))
      .execute();
  }
}

export async function clearAddresses(db: Db, number: number): Promise<void> {
  await db.deleteFrom('webhook_addresses').where('number', '=', number).execute();
}

/** A key as a string that can be a Map or Set key. */
export const keyText = (key: Uint8Array): string => toBuffer(key).toString('latin1');

const toBuffer = (key: Uint8Array): Buffer =>
  Buffer.isBuffer(key) ? key : Buffer.from(key.buffer, key.byteOffset, key.byteLength);
