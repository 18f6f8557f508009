import { inList } from '../../../src/lib/in-list.ts';
import type { Dialect, StoreTx } from '../../../src/ports/store.ts';
import type {
  DisabledReason,
  OnInactive,
  ParsedSelection,
  RetryPreset,
  TxnStatus,
  Webhook,
  WebhookType,
} from '../model.ts';
import type { WebhookDb, WebhookRow } from './tables.ts';

/** Columns that callers may write; this folder maintains the others. */
export type WebhookPatch = Partial<Omit<Webhook, 'number' | 'id' | 'projectId' | 'createdAt' | 'wallet'>>;

export async function findHook(db: WebhookDb, projectId: string, id: string): Promise<Webhook | null> {
  const row = await db
    .selectFrom('webhooks')
    .selectAll()
    .where('id', '=', id)
    .where('project_id', '=', projectId)
    .executeTakeFirst();
  return row === undefined ? null : fromRow(row);
}

export async function listHooks(db: WebhookDb, projectId: string): Promise<readonly Webhook[]> {
  const rows = await db
    .selectFrom('webhooks')
    .selectAll()
    .where('project_id', '=', projectId)
    .orderBy('number')
    .execute();
  return rows.map(fromRow);
}

export async function countHooks(db: WebhookDb, projectId: string): Promise<number> {
  const row = await db
    .selectFrom('webhooks')
    .select((of) => of.fn.countAll().as('count'))
    .where('project_id', '=', projectId)
    .executeTakeFirst();
  return Number(row?.count ?? 0);
}

/** Webhooks of any project by number or id: for the block processor and the sender. */
export async function hooksByNumber(db: WebhookDb, numbers: readonly number[]): Promise<readonly Webhook[]> {
  if (numbers.length === 0) return [];
  return (await db.selectFrom('webhooks').selectAll().where('number', 'in', numbers).execute()).map(fromRow);
}

export async function hooksById(db: WebhookDb, dialect: Dialect, ids: readonly string[]): Promise<readonly Webhook[]> {
  if (ids.length === 0) return [];
  const rows = await db
    .selectFrom('webhooks')
    .selectAll()
    .where(inList(dialect, 'id', ids))
    .execute();
  return rows.map(fromRow);
}

/** Webhooks of all projects that the daemon switched off since then (Unix milliseconds) and nobody switched on again, the newest first. */
export async function hooksSwitchedOff(db: WebhookDb, since: number, most: number): Promise<readonly Webhook[]> {
  const rows = await db
    .selectFrom('webhooks')
    .selectAll()
    .where('active', '=', 0)
    .where('disabled_reason', '!=', 'user')
    .where('disabled_at', '>=', since)
    .orderBy('disabled_at', 'desc')
    .orderBy('number', 'desc')
    .limit(most)
    .execute();
  return rows.map(fromRow);
}

export async function allHooks(db: WebhookDb): Promise<readonly Webhook[]> {
  return (await db.selectFrom('webhooks').selectAll().orderBy('number').execute()).map(fromRow);
}

export async function insertHook(db: WebhookDb, hook: Webhook): Promise<void> {
  await db
    .insertInto('webhooks')
    .values({
      ...toRow(hook),
      number: hook.number,
      id: hook.id,
      project_id: hook.projectId,
      created_at: hook.createdAt,
      wallet: hook.wallet,
    } as WebhookRow)
    .execute();
}

export async function updateHook(db: WebhookDb, number: number, patch: WebhookPatch): Promise<void> {
  await db.updateTable('webhooks').set(toRow(patch)).where('number', '=', number).execute();
}

/** Deletes the webhook and its data; its deliveries stay in the outbox until they are pruned. */
export async function deleteHook(db: WebhookDb, number: number): Promise<void> {
  for (const table of [
    'webhook_addresses',
    'webhook_secrets',
    'webhook_health',
    'webhook_days',
    'webhook_missed',
    'webhooks',
  ] as const) {
    await db.deleteFrom(table).where('number', '=', number).execute();
  }
}

function fromRow(row: WebhookRow): Webhook {
  return {
    number: row.number,
    id: row.id,
    projectId: row.project_id,
    url: row.url,
    type: row.type as WebhookType,
    transactionTypes: JSON.parse(row.transaction_types) as string[],
    authHeader: row.auth_header,
    active: row.active === 1,
    txnStatus: row.txn_status as TxnStatus | null,
    encoding: row.encoding,
    matchTokenOwners: row.match_token_owners === 1,
    retryPreset: row.retry_preset as RetryPreset,
    batchSize: row.batch_size,
    ordered: row.ordered === 1,
    onInactive: row.on_inactive as OnInactive,
    addressCount: row.address_count,
    nextPosition: row.next_position,
    disabledReason: row.disabled_reason as DisabledReason | null,
    disabledAt: row.disabled_at,
    graceUntil: row.grace_until,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
    wallet: row.wallet,
    parsed: row.parsed_filter === null ? null : (JSON.parse(row.parsed_filter) as ParsedSelection),
    name: row.name ?? null,
    description: row.description ?? null,
  };
}

function toRow(patch: WebhookPatch): Partial<WebhookRow> {
  const row: Partial<WebhookRow> = {};
  if (patch.url !== undefined) row.url = patch.url;
  if (patch.type !== undefined) row.type = patch.type;
  if (patch.transactionTypes !== undefined) row.transaction_types = JSON.stringify(patch.transactionTypes);
  if (patch.authHeader !== undefined) row.auth_header = patch.authHeader;
  if (patch.active !== undefined) row.active = patch.active ? 1 : 0;
  if (patch.txnStatus !== undefined) row.txn_status = patch.txnStatus;
  if (patch.encoding !== undefined) row.encoding = patch.encoding;
  if (patch.matchTokenOwners !== undefined) row.match_token_owners = patch.matchTokenOwners ? 1 : 0;
  if (patch.retryPreset !== undefined) row.retry_preset = patch.retryPreset;
  if (patch.batchSize !== undefined) row.batch_size = patch.batchSize;
  if (patch.ordered !== undefined) row.ordered = patch.ordered ? 1 : 0;
  if (patch.onInactive !== undefined) row.on_inactive = patch.onInactive;
  if (patch.addressCount !== undefined) row.address_count = patch.addressCount;
  if (patch.nextPosition !== undefined) row.next_position = patch.nextPosition;
  if (patch.disabledReason !== undefined) row.disabled_reason = patch.disabledReason;
  if (patch.disabledAt !== undefined) row.disabled_at = patch.disabledAt;
  if (patch.graceUntil !== undefined) row.grace_until = patch.graceUntil;
  if (patch.parsed !== undefined) row.parsed_filter = patch.parsed === null ? null : JSON.stringify(patch.parsed);
  if (patch.name !== undefined) row.name = patch.name;
  if (patch.description !== undefined) row.description = patch.description;
  if (patch.updatedAt !== undefined) row.updated_at = patch.updatedAt;
  return row;
}

/** The valid secrets of each of the webhooks, newest first. */
export async function readSecrets(
  db: WebhookDb,
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
  // The secret without an expiry is the newest, whatever the clock was when it was created.
  rows.sort((a, b) => Number(a.expires_at !== null) - Number(b.expires_at !== null) || b.created_at - a.created_at);
  for (const row of rows) {
    if (row.expires_at !== null && row.expires_at <= now) continue;
    const known = found.get(row.number);
    if (known === undefined) found.set(row.number, [row.secret]);
    else known.push(row.secret);
  }
  return found;
}

export async function insertSecret(db: WebhookDb, number: number, secret: string, now: number): Promise<void> {
  await db.insertInto('webhook_secrets').values({ number, created_at: now, secret, expires_at: null }).execute();
}

/** Ends the current secret at `expiresAt`, deletes expired ones, and returns how many old ones still sign. */
export async function retireSecrets(db: WebhookDb, number: number, now: number, expiresAt: number): Promise<number> {
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

/** Bound parameters per statement; PostgreSQL and SQLite accept many more. */
const CHUNK = 1_000;

/** The 32-byte keys of a webhook in their given order. */
export async function readAddresses(db: WebhookDb, number: number, limit?: number): Promise<Buffer[]> {
  let query = db.selectFrom('webhook_addresses').select('address').where('number', '=', number).orderBy('position');
  if (limit !== undefined) query = query.limit(limit);
  return (await query.execute()).map(({ address }) => address as Buffer);
}

/** The first addresses of many webhooks at once. */
export async function readFirstAddresses(
  db: WebhookDb,
  numbers: readonly number[],
  limit: number,
): Promise<ReadonlyMap<number, Buffer[]>> {
  const found = new Map<number, Buffer[]>();
  for (const number of numbers) found.set(number, await readAddresses(db, number, limit));
  return found;
}

/** The keys that the webhook already watches, as latin1 strings of their bytes. */
export async function presentAddresses(
  db: WebhookDb,
  number: number,
  keys: readonly Uint8Array[],
): Promise<Set<string>> {
  const present = new Set<string>();
  for (let from = 0; from < keys.length; from += CHUNK) {
    const rows = await db
      .selectFrom('webhook_addresses')
      .select('address')
      .where('number', '=', number)
      .where('address', 'in', keys.slice(from, from + CHUNK).map(toBuffer))
      .execute();
    for (const { address } of rows) present.add(indexKeyText(address));
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

export async function removeAddresses(db: WebhookDb, number: number, keys: readonly Uint8Array[]): Promise<void> {
  for (let from = 0; from < keys.length; from += CHUNK) {
    await db
      .deleteFrom('webhook_addresses')
      .where('number', '=', number)
      .where('address', 'in', keys.slice(from, from + CHUNK).map(toBuffer))
      .execute();
  }
}

export async function clearAddresses(db: WebhookDb, number: number): Promise<void> {
  await db.deleteFrom('webhook_addresses').where('number', '=', number).execute();
}

/** A key as a string for a Map or Set. */
export const indexKeyText = (key: Uint8Array): string => toBuffer(key).toString('latin1');

const toBuffer = (key: Uint8Array): Buffer =>
  Buffer.isBuffer(key) ? key : Buffer.from(key.buffer, key.byteOffset, key.byteLength);
