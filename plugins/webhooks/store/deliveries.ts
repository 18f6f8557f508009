import { type RawBuilder, sql } from 'kysely';
import { inList } from '../../../src/lib/in-list.ts';
import type { ChainId } from '../../../src/ports/chain.ts';
import type { Queries, Store, StoreTx } from '../../../src/ports/store.ts';
import type { BodyForm, DeliveryPayload } from '../model.ts';
import type { WebhookDb } from './tables.ts';

/**
 * The element of one transaction in one form, shared by all its deliveries. A transaction that lands again after a reorg has one per
 * slot: deliveries that were attempted repeat the bytes they sent.
 */
export interface StoredElement {
  readonly signature: string;
  readonly slot: number;
  readonly chain: ChainId;
  readonly form: BodyForm;
  readonly json: string;
  /** Number of deliveries that reference it. */
  readonly refs: number;
}

/** What names an element. */
type ElementName = Pick<StoredElement, 'signature' | 'slot' | 'chain' | 'form'>;

export const elementKey = ({ chain, slot, form, signature }: ElementName): string =>
  `${chain}:${slot}:${form}:${signature}`;

/**
 * Condition that the row is one of these elements, all in one parameter for each column: the text of the statement does not depend on
 * their number.
 */
function isOneOf(dialect: StoreTx['dialect'], names: readonly ElementName[]): RawBuilder<boolean> {
  const rows =
    dialect === 'sqlite'
      ? sql`SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3 FROM json_each(${JSON.stringify(
          names.map(({ chain, slot, signature, form }) => [chain, slot, signature, form]),
        )})`
      : sql`SELECT * FROM unnest(${names.map(({ chain }) => chain)}::text[], ${names.map(({ slot }) => slot)}::bigint[],
          ${names.map(({ signature }) => signature)}::text[], ${names.map(({ form }) => form)}::text[])`;
  return sql<boolean>`(chain, slot, signature, form) IN (${rows})`;
}

export async function insertElements(tx: StoreTx, blobs: readonly StoredElement[], now: number): Promise<void> {
  await tx.insertMany(
    'webhook_elements',
    ['signature', 'slot', 'chain', 'form', 'json', 'refs', 'created_at'],
    blobs.map(({ signature, slot, chain, form, json, refs }) => [signature, slot, chain, form, json, refs, now]),
  );
}

export async function addRefs(tx: StoreTx, blob: StoredElement): Promise<void> {
  await (tx.db as WebhookDb)
    .updateTable('webhook_elements')
    .set({ refs: sql`refs + ${blob.refs}` })
    .where(isOneOf(tx.dialect, [blob]))
    .execute();
}

/** The elements of a slot, as `elementKey`s. */
export async function elementsOfSlot(tx: StoreTx, chain: ChainId, slot: number): Promise<ReadonlySet<string>> {
  const rows = await (tx.db as WebhookDb)
    .selectFrom('webhook_elements')
    .select(['signature', 'form'])
    .where('chain', '=', chain)
    .where('slot', '=', slot)
    .execute();
  return new Set(rows.map(({ signature, form }) => elementKey({ chain, slot, signature, form: form as BodyForm })));
}

/** The JSON texts of the given elements, by `elementKey`. */
export async function readElements(
  { read, dialect }: Pick<Store, 'read' | 'dialect'>,
  names: readonly ElementName[],
): Promise<ReadonlyMap<string, string>> {
  if (names.length === 0) return new Map();
  const rows = await (read as WebhookDb)
    .selectFrom('webhook_elements')
    .select(['signature', 'slot', 'chain', 'form', 'json'])
    .where(isOneOf(dialect, names))
    .execute();
  return new Map(rows.map((row) => [elementKey(row as ElementName), row.json]));
}

/** Releases the references of deleted deliveries, and deletes elements that have none left. */
export async function releaseRefs(tx: StoreTx, names: readonly ElementName[]): Promise<void> {
  const counts = new Map<string, { readonly name: ElementName; count: number }>();
  for (const name of names) {
    const known = counts.get(elementKey(name));
    if (known === undefined) counts.set(elementKey(name), { name, count: 1 });
    else known.count += 1;
  }
  const bySize = new Map<number, ElementName[]>();
  for (const { name, count } of counts.values()) bySize.set(count, [...(bySize.get(count) ?? []), name]);
  for (const [count, group] of bySize) {
    const some = isOneOf(tx.dialect, group);
    await sql`UPDATE webhook_elements SET refs = refs - ${count} WHERE ${some}`.execute(tx.db);
    await sql`DELETE FROM webhook_elements WHERE ${some} AND refs <= 0`.execute(tx.db);
  }
}

/** A delivery in the request of another one, its leader. */
export interface BatchMember {
  readonly id: number;
  readonly payload: DeliveryPayload;
}

/**
 * Stores the content of a batch, so that every attempt sends the same bytes. A leader without members is stored as its own member.
 * Earlier batches of its deliveries are deleted.
 */
export async function insertBatch(
  tx: StoreTx,
  leader: BatchMember & { readonly webhookId: string },
  members: readonly BatchMember[],
  now: number,
): Promise<void> {
  const inside = members.length === 0 ? [leader] : members;
  await forgetSent(tx, [leader.id, ...members.map(({ id }) => id)]);
  await tx.insertMany(
    'webhook_batches',
    ['job_id', 'leader_id', 'position', 'webhook_id', 'payload', 'created_at'],
    inside.map(({ id, payload }, at) => [id, leader.id, at, leader.webhookId, JSON.stringify(payload), now]),
  );
}

/** The members of the batches that these deliveries lead, in their order; empty for a delivery that is sent alone. */
export async function readBatches(
  db: Queries,
  dialect: StoreTx['dialect'],
  leaderIds: readonly number[],
): Promise<ReadonlyMap<number, readonly BatchMember[]>> {
  const found = new Map<number, BatchMember[]>();
  if (leaderIds.length === 0) return found;
  const rows = await (db as WebhookDb)
    .selectFrom('webhook_batches')
    .select(['leader_id', 'job_id', 'payload'])
    .where(inList(dialect, 'leader_id', leaderIds))
    .orderBy('leader_id')
    .orderBy('position')
    .execute();
  for (const row of rows) {
    const known = found.get(row.leader_id) ?? [];
    found.set(row.leader_id, known);
    if (row.job_id !== row.leader_id)
      known.push({ id: row.job_id, payload: JSON.parse(row.payload) as DeliveryPayload });
  }
  return found;
}

/** Each delivery of these batches is sent alone from now on. */
export async function endBatches(tx: StoreTx, leaderIds: readonly number[]): Promise<void> {
  if (leaderIds.length === 0) return;
  await (tx.db as WebhookDb)
    .deleteFrom('webhook_batches')
    .where(inList(tx.dialect, 'leader_id', leaderIds))
    .execute();
}

/** Marks these batches as finished; their content is kept for resends. */
export async function keepSent(tx: StoreTx, leaderIds: readonly number[]): Promise<void> {
  if (leaderIds.length === 0) return;
  await moveRows(tx, 'webhook_batches', 'webhook_sent_batches', leaderIds);
}

/** The batches in which these deliveries were sent: members without the leader, by leader. */
export async function sentBatches(
  tx: StoreTx,
  ids: readonly number[],
): Promise<ReadonlyMap<number, readonly number[]>> {
  const rows = await (tx.db as WebhookDb)
    .selectFrom('webhook_sent_batches')
    .select(['leader_id', 'job_id'])
    .where('leader_id', 'in', leadersOf(tx, ids))
    .orderBy('position')
    .execute();
  return byLeader(rows);
}

function byLeader(rows: readonly { leader_id: number; job_id: number }[]): ReadonlyMap<number, readonly number[]> {
  const found = new Map<number, number[]>();
  for (const { leader_id, job_id } of rows) {
    const members = found.get(leader_id) ?? [];
    found.set(leader_id, members);
    if (job_id !== leader_id) members.push(job_id);
  }
  return found;
}

/** Reopens sent batches, to be sent again unchanged. */
export async function reopenSent(tx: StoreTx, leaderIds: readonly number[]): Promise<void> {
  if (leaderIds.length > 0) await moveRows(tx, 'webhook_sent_batches', 'webhook_batches', leaderIds);
}

/** Deletes the batches in which these deliveries were sent. */
export async function forgetSent(tx: StoreTx, ids: readonly number[]): Promise<void> {
  await (tx.db as WebhookDb).deleteFrom('webhook_sent_batches').where('leader_id', 'in', leadersOf(tx, ids)).execute();
}

function leadersOf(tx: StoreTx, ids: readonly number[]) {
  return (tx.db as WebhookDb)
    .selectFrom('webhook_sent_batches')
    .select('leader_id')
    .where((is) => is.or([inList(tx.dialect, 'job_id', ids), inList(tx.dialect, 'leader_id', ids)]));
}

type BatchTable = 'webhook_batches' | 'webhook_sent_batches';

async function moveRows(tx: StoreTx, from: BatchTable, to: BatchTable, leaderIds: readonly number[]): Promise<void> {
  const db = tx.db as WebhookDb;
  const moved = inList(tx.dialect, 'leader_id', leaderIds);
  await db.insertInto(to).columns(COLUMNS).expression(db.selectFrom(from).select(COLUMNS).where(moved)).execute();
  await db.deleteFrom(from).where(moved).execute();
}

const COLUMNS = ['job_id', 'leader_id', 'position', 'webhook_id', 'payload', 'created_at'] as const;

/** The deliveries in the batches of a webhook, by leader, without those that are sent alone. */
export async function batchesOf(tx: StoreTx, webhookId: string): Promise<ReadonlyMap<number, readonly number[]>> {
  const rows = await (tx.db as WebhookDb)
    .selectFrom('webhook_batches')
    .select(['leader_id', 'job_id'])
    .where('webhook_id', '=', webhookId)
    .whereRef('job_id', '!=', 'leader_id')
    .execute();
  return byLeader(rows);
}

/** Leaders of batches that were formed before `createdBefore`, at most `limit`. */
export async function oldLeaders(db: WebhookDb, createdBefore: number, limit: number): Promise<readonly number[]> {
  const rows = await db
    .selectFrom('webhook_batches')
    .select('leader_id')
    .distinct()
    .where('created_at', '<', createdBefore)
    .limit(limit)
    .execute();
  return rows.map((row) => row.leader_id);
}

/** The batch in which a delivery is, or was last, sent; null: it is sent alone. Members are without the leader. */
export async function batchOfDelivery(
  db: WebhookDb,
  id: number,
): Promise<{ readonly leaderId: number; readonly members: readonly BatchMember[] } | null> {
  for (const table of ['webhook_batches', 'webhook_sent_batches'] as const) {
    const rows = await db
      .selectFrom(table)
      .select(['leader_id', 'job_id', 'payload'])
      .where(
        'leader_id',
        'in',
        db
          .selectFrom(table)
          .select('leader_id')
          .where('job_id', '=', id)
          .union(db.selectFrom(table).select('leader_id').where('leader_id', '=', id)),
      )
      .orderBy('position')
      .execute();
    const [first] = rows;
    if (first === undefined) continue;
    const members = rows
      .filter(({ job_id, leader_id }) => job_id !== leader_id)
      .map(({ job_id, payload }) => ({ id: job_id, payload: JSON.parse(payload) as DeliveryPayload }));
    return { leaderId: first.leader_id, members };
  }
  return null;
}

/** Types of the transactions of these elements, by `elementKey`: only of the enhanced form, which contains them. */
export async function readTypes(
  { read, dialect }: Pick<Store, 'read' | 'dialect'>,
  names: readonly ElementName[],
): Promise<ReadonlyMap<string, string>> {
  const enhanced = names.filter(({ form }) => form === 'enhanced');
  if (enhanced.length === 0) return new Map();
  const type = dialect === 'sqlite' ? sql<string>`json_extract(json, '$.type')` : sql<string>`json::json ->> 'type'`;
  const rows = await (read as WebhookDb)
    .selectFrom('webhook_elements')
    .select(['signature', 'slot', 'chain', 'form', type.as('type')])
    .where(isOneOf(dialect, enhanced))
    .execute();
  return new Map(rows.map((row) => [elementKey(row as ElementName), row.type]));
}

/** One request for a delivery, or a failed attempt to make one. */
export interface StoredAttempt {
  readonly jobId: number;
  /** Number of the webhook. */
  readonly number: number;
  /** 1-based, within its series. */
  readonly n: number;
  /** Unix milliseconds. */
  readonly startedAt: number;
  readonly durationMs: number;
  readonly status: number | null;
  readonly failure: string | null;
  /** The first bytes of the response. */
  readonly excerpt: Uint8Array | null;
  /** Headers of the response, bounded; null without one, and for attempts of earlier versions. */
  readonly responseHeaders: Readonly<Record<string, string>> | null;
}

export async function insertAttempts(tx: StoreTx, attempts: readonly StoredAttempt[]): Promise<void> {
  await tx.insertMany(
    'webhook_attempts',
    ['job_id', 'number', 'started_at', 'n', 'duration_ms', 'status', 'failure', 'excerpt', 'response_headers'],
    attempts.map(({ responseHeaders, ...a }) => [
      a.jobId,
      a.number,
      a.startedAt,
      a.n,
      a.durationMs,
      a.status,
      a.failure,
      a.excerpt,
      responseHeaders === null ? null : JSON.stringify(responseHeaders),
    ]),
    'ignore',
  );
}

/** The attempts of each of the deliveries, oldest first. */
export async function readAttempts(
  db: WebhookDb,
  jobIds: readonly number[],
): Promise<ReadonlyMap<number, readonly StoredAttempt[]>> {
  const found = new Map<number, StoredAttempt[]>();
  if (jobIds.length === 0) return found;
  const rows = await db
    .selectFrom('webhook_attempts')
    .selectAll()
    .where('job_id', 'in', jobIds)
    .orderBy('job_id')
    .orderBy('started_at')
    .orderBy('n')
    .execute();
  for (const row of rows) {
    const attempt: StoredAttempt = {
      jobId: row.job_id,
      number: row.number,
      n: row.n,
      startedAt: row.started_at,
      durationMs: row.duration_ms,
      status: row.status,
      failure: row.failure,
      excerpt: row.excerpt,
      responseHeaders: row.response_headers === null ? null : JSON.parse(row.response_headers),
    };
    const known = found.get(row.job_id);
    if (known === undefined) found.set(row.job_id, [attempt]);
    else known.push(attempt);
  }
  return found;
}

export async function removeAttempts(db: WebhookDb, jobIds: readonly number[]): Promise<void> {
  if (jobIds.length === 0) return;
  await db.deleteFrom('webhook_attempts').where('job_id', 'in', jobIds).execute();
}
