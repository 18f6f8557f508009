import { inList } from '../../../src/lib/in-list.ts';
import type { Dialect } from '../../../src/ports/store.ts';
import type { Db } from './tables.ts';

export interface SecretRow {
  readonly number: number;
  readonly createdAt: number;
  readonly secret: string;
  /** Unix milliseconds; null for the newest one. */
  readonly expiresAt: number | null;
}

/** The secrets in force, newest first, of each of the webhooks. */
export async function readSecrets(
  db: Db,
  dialect: Dialect,
  numbers: readonly number[],
  now: number,
): Promise<ReadonlyMap<number, readonly string[]>> {
  const found = new Map<number, string[]>();
  if (numbers.length === 0) return found;
  const rows = await db
    .selectFrom('webhook_secrets')
    .selectAll()
    .where(inList(dialect, 'number', numbers))
    .execute();
  // The one without an expiry is the newest whatever the clock said when it was made.
  rows.sort((a, b) => Number(a.expires_at !== null) - Number(b.expires_at !== null) || b.created_at - a.created_at);
  for (const row of rows) {
    if (row.expires_at !== null && row.expires_at <= now) continue;
    const known = found.get(row.number);
    if (known === undefined) found.set(row.number, [row.secret]);
    else known.push(row.secret);
  }
  return found;
}

export async function insertSecret(db: Db, number: number, secret: string, now: number): Promise<void> {
  await db.insertInto('webhook_secrets').values({ number, created_at: now, secret, expires_at: null }).execute();
}

/** Ends the current secret at `expiresAt`, drops the ones that are over, and returns how many old ones still sign. */
export async function retireSecrets(db: Db, number: number, now: number, expiresAt: number): Promise<number> {
  await db.deleteFrom('webhook_secrets').where('number', '=', number).where('expires_at', '<=', now).execute();
  if (expiresAt <= now) {
    await db.deleteFrom('webhook_secrets').where('number', '=', number).execute();
    return 0;
  }
  await db
    .updateTable('webhook_secrets')
    .set({ expires_at: expiresAt })
    .where('number', '=', number)
    .where('expires_at', 'is', null)
    .execute();
  const rows = await db.selectFrom('webhook_secrets').select('secret').where('number', '=', number).execute();
  return rows.length;
}
