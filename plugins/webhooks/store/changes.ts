import { sql } from 'kysely';
import { encode32 } from '../../../src/lib/base58.ts';
import type { ChainId } from '../../../src/ports/chain.ts';
import type { StoreTx } from '../../../src/ports/store.ts';
import { chainOf, type ParsedSelection, WEBHOOK_TYPES } from '../model.ts';
import type { WebhookDb } from './tables.ts';

/** The effect of one write on the addresses of a webhook. A change without addresses means that the webhook itself changed. */
export interface IndexChange {
  readonly version: number;
  readonly number: number;
  readonly removed: readonly Uint8Array[];
  readonly added: readonly Uint8Array[];
}

/** Older changes may be deleted: an index that is further behind reloads everything. */
export const CHANGES_KEPT_MS = 600_000;

/**
 * Opens a write to webhooks: takes the next version. The row stays locked until the commit, so that writes of several processes
 * are serialized and versions become visible in order.
 */
export async function beginChange(tx: StoreTx): Promise<number> {
  const row = await (tx.db as WebhookDb)
    .updateTable('webhook_state')
    .set({ version: sql`version + 1` })
    .where('id', '=', 1)
    .returning('version')
    .executeTakeFirstOrThrow();
  return row.version;
}

/** A number that no webhook has or had. */
export async function takeNumber(tx: StoreTx): Promise<number> {
  const row = await (tx.db as WebhookDb)
    .updateTable('webhook_state')
    .set({ next_number: sql`next_number + 1` })
    .where('id', '=', 1)
    .returning('next_number')
    .executeTakeFirstOrThrow();
  return row.next_number - 1;
}

export async function recordChange(tx: StoreTx, change: IndexChange, now: number): Promise<void> {
  await (tx.db as WebhookDb)
    .insertInto('webhook_changes')
    .values({
      version: change.version,
      number: change.number,
      removed: pack(change.removed),
      added: pack(change.added),
      changed_at: now,
    })
    .execute();
}

export async function currentVersion(db: WebhookDb): Promise<number> {
  return (await db.selectFrom('webhook_state').select('version').where('id', '=', 1).executeTakeFirstOrThrow()).version;
}

/** Waits for open writes and blocks new ones until the transaction ends, so that all reads see one state. */
export async function lockChanges(tx: StoreTx): Promise<number> {
  const row = await (tx.db as WebhookDb)
    .updateTable('webhook_state')
    .set({ version: sql`version` })
    .where('id', '=', 1)
    .returning('version')
    .executeTakeFirstOrThrow();
  return row.version;
}

/** The changes after `known` up to `version`; null when some of them are no longer kept. */
export async function changesSince(
  db: WebhookDb,
  known: number,
  version: number,
): Promise<readonly IndexChange[] | null> {
  const rows = await db
    .selectFrom('webhook_changes')
    .selectAll()
    .where('version', '>', known)
    .where('version', '<=', version)
    .orderBy('version')
    .orderBy('number')
    .execute();
  const versions = new Set(rows.map((row) => row.version));
  if (versions.size !== version - known) return null;
  return rows.map((row) => ({
    version: row.version,
    number: row.number,
    removed: unpack(row.removed),
    added: unpack(row.added),
  }));
}

export async function pruneChanges(db: WebhookDb, changedBefore: number): Promise<void> {
  await db.deleteFrom('webhook_changes').where('changed_at', '<', changedBefore).execute();
}

/** Accounts are rarer in transactions than programs. */
const addressesOf = ({ programs, include, roles }: ParsedSelection['filter']): readonly string[] => {
  const [role] = roles;
  if (role !== undefined) return [role[1]];
  return include.length > 0 ? include : programs;
};

const KEY_BYTES = 32;

const pack = (keys: readonly Uint8Array[]): Buffer | null => (keys.length === 0 ? null : Buffer.concat(keys));

function unpack(bytes: Uint8Array | null): Uint8Array[] {
  if (bytes === null) return [];
  const keys: Uint8Array[] = [];
  for (let at = 0; at < bytes.length; at += KEY_BYTES) keys.push(bytes.subarray(at, at + KEY_BYTES));
  return keys;
}

/**
 * Base58 addresses that active webhooks of a chain watch, without duplicates, at most `limit`. Of parsed ones those by which each
 * transaction can be found that they may want.
 */
export async function watchedAddresses(db: WebhookDb, chain: ChainId, limit: number): Promise<readonly string[]> {
  const filters = await db
    .selectFrom('webhooks')
    .select('parsed_filter')
    .where('active', '=', 1)
    .where('parsed_filter', 'is not', null)
    .limit(chain === 'main' ? limit : 0)
    .execute();
  const wanted = new Set(
    filters.flatMap((row) => addressesOf((JSON.parse(row.parsed_filter!) as ParsedSelection).filter)),
  );
  const rows = await db
    .selectFrom('webhook_addresses')
    .innerJoin('webhooks', 'webhooks.number', 'webhook_addresses.number')
    .select('webhook_addresses.address')
    .distinct()
    .where('webhooks.active', '=', 1)
    .where(
      'webhooks.type',
      'in',
      WEBHOOK_TYPES.filter((type) => chainOf(type) === chain),
    )
    .limit(limit)
    .execute();
  for (const { address } of rows) wanted.add(encode32(address));
  return [...wanted].slice(0, limit);
}
