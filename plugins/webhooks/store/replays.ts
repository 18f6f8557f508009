import type { ChainId } from '../../../src/ports/chain.ts';
import type { Queries, StoreTx } from '../../../src/ports/store.ts';
import type { Db } from './tables.ts';

/** What a webhook asked to be read from the chain again. */
export interface Replay {
  readonly id: string;
  /** Of the webhook. */
  readonly number: number;
  readonly chain: ChainId;
  readonly fromSlot: number;
  /** Inclusive. */
  readonly toSlot: number;
  /** Whether deliveries that were made before go out again. */
  readonly force: boolean;
  /** Of the kernel's gap book. */
  readonly gapId: number;
  /** Deliveries that it gave rise to so far. */
  readonly queued: number;
  /** Unix milliseconds. */
  readonly createdAt: number;
}

export async function insertReplay(tx: StoreTx, replay: Replay): Promise<void> {
  await (tx.db as Db)
    .insertInto('webhook_replays')
    .values({
      id: replay.id,
      number: replay.number,
      chain: replay.chain,
      from_slot: replay.fromSlot,
      to_slot: replay.toSlot,
      force: replay.force ? 1 : 0,
      gap_id: replay.gapId,
      queued: replay.queued,
      created_at: replay.createdAt,
      finished_at: null,
    })
    .execute();
}

/** Replays that are not over: all, of one webhook, or those that want a slot. */
export async function openReplays(
  db: Queries,
  which: { readonly number?: number; readonly chain?: ChainId; readonly slot?: number } = {},
): Promise<readonly Replay[]> {
  let query = (db as Db).selectFrom('webhook_replays').selectAll().where('finished_at', 'is', null);
  if (which.number !== undefined) query = query.where('number', '=', which.number);
  if (which.chain !== undefined) query = query.where('chain', '=', which.chain);
  if (which.slot !== undefined) query = query.where('from_slot', '<=', which.slot).where('to_slot', '>=', which.slot);
  return (await query.execute()).map((row) => ({
    id: row.id,
    number: row.number,
    chain: row.chain as ChainId,
    fromSlot: row.from_slot,
    toSlot: row.to_slot,
    force: row.force === 1,
    gapId: row.gap_id,
    queued: row.queued,
    createdAt: row.created_at,
  }));
}

export async function addQueued(tx: StoreTx, id: string, count: number): Promise<void> {
  await (tx.db as Db)
    .updateTable('webhook_replays')
    .set((eb) => ({ queued: eb('queued', '+', count) }))
    .where('id', '=', id)
    .execute();
}

export async function finishReplays(tx: StoreTx, ids: readonly string[], now: number): Promise<void> {
  await (tx.db as Db).updateTable('webhook_replays').set({ finished_at: now }).where('id', 'in', ids).execute();
}
