import { inList } from '../../../src/lib/in-list.ts';
import type { Queries, StoreTx } from '../../../src/ports/store.ts';
import type { DeliveryPayload } from '../delivery/payload.ts';
import type { Db } from './tables.ts';

/** A delivery that travels in the request of another one. */
export interface Member {
  readonly id: number;
  readonly payload: DeliveryPayload;
}

/** Fixes what a batch holds, so that every attempt sends the same. */
export async function insertBatch(
  tx: StoreTx,
  leader: { readonly id: number; readonly webhookId: string },
  members: readonly Member[],
  now: number,
): Promise<void> {
  await tx.insertMany(
    'webhook_batches',
    ['job_id', 'leader_id', 'place', 'webhook_id', 'payload', 'created_at'],
    members.map(({ id, payload }, at) => [id, leader.id, at, leader.webhookId, JSON.stringify(payload), now]),
  );
}

/** The members of the batches that these deliveries lead, in their order. */
export async function readBatches(
  db: Queries,
  dialect: StoreTx['dialect'],
  leaderIds: readonly number[],
): Promise<ReadonlyMap<number, readonly Member[]>> {
  const found = new Map<number, Member[]>();
  if (leaderIds.length === 0) return found;
  const rows = await (db as Db)
    .selectFrom('webhook_batches')
    .select(['leader_id', 'job_id', 'payload'])
    .where(inList(dialect, 'leader_id', leaderIds))
    .orderBy('leader_id')
    .orderBy('place')
    .execute();
  for (const row of rows) {
    const member = { id: row.job_id, payload: JSON.parse(row.payload) as DeliveryPayload };
    const known = found.get(row.leader_id);
    if (known === undefined) found.set(row.leader_id, [member]);
    else known.push(member);
  }
  return found;
}

export async function endBatches(tx: StoreTx, leaderIds: readonly number[]): Promise<void> {
  if (leaderIds.length === 0) return;
  await (tx.db as Db)
    .deleteFrom('webhook_batches')
    .where(inList(tx.dialect, 'leader_id', leaderIds))
    .execute();
}

/** The deliveries in the batches of a webhook, by the one that leads them. */
export async function batchesOf(tx: StoreTx, webhookId: string): Promise<ReadonlyMap<number, readonly number[]>> {
  const rows = await (tx.db as Db)
    .selectFrom('webhook_batches')
    .select(['leader_id', 'job_id'])
    .where('webhook_id', '=', webhookId)
    .execute();
  const found = new Map<number, number[]>();
  for (const { leader_id, job_id } of rows) found.set(leader_id, [...(found.get(leader_id) ?? []), job_id]);
  return found;
}

/** Leaders of batches that were formed before `createdBefore`, at most `limit`. */
export async function oldLeaders(db: Db, createdBefore: number, limit: number): Promise<readonly number[]> {
  const rows = await db
    .selectFrom('webhook_batches')
    .select('leader_id')
    .distinct()
    .where('created_at', '<', createdBefore)
    .limit(limit)
    .execute();
  return rows.map((row) => row.leader_id);
}
