import type { ChainId } from '../../../src/ports/chain.ts';
import type { StoreTx } from '../../../src/ports/store.ts';
import type { WebhookDb } from './tables.ts';

/**
 * Why an event was not stored: its webhook had too many waiting events, the plan of its project has no room, or the interfaces of
 * programs could not be read; then each transaction counts that the webhook may have wanted.
 */
export const MISS_REASONS = ['queue_full', 'plan_full', 'interfaces_unread'] as const;
export type MissReason = (typeof MISS_REASONS)[number];

/** Events of a webhook that were not stored. Their blocks can be replayed. */
export interface MissedRange {
  readonly chain: ChainId;
  readonly fromSlot: number;
  /** Inclusive. */
  readonly toSlot: number;
  /** Events of a reverted block, or of a block that was read twice, count twice. */
  readonly events: number;
  /** Reason of the newest event. */
  readonly reason: MissReason;
  /** Unix milliseconds. */
  readonly since: number;
  readonly updatedAt: number;
}

export interface Missed {
  /** Number of the webhook. */
  readonly number: number;
  readonly events: number;
  readonly reason: MissReason;
}

/** Largest distance in slots between two events of one range: a minute. */
const MAX_DISTANCE = 150;
/** Largest length of a range: what one replay reads, at the longest slots. */
const MAX_LENGTH = 18_000;
/** Ranges per webhook; beyond that the nearest range grows. */
const MAX_RANGES = 100;

/** Records events of a block that were not stored, in its transaction. */
export async function addMissed(
  tx: StoreTx,
  { chain, slot, now }: { readonly chain: ChainId; readonly slot: number; readonly now: number },
  list: readonly Missed[],
): Promise<void> {
  const db = tx.db as WebhookDb;
  for (const { number, events, reason } of list) {
    const ranges = await db
      .selectFrom('webhook_missed')
      .selectAll()
      .where('number', '=', number)
      .where('chain', '=', chain)
      .orderBy('from_slot', 'desc')
      .execute();
    const below = ranges.find(({ from_slot }) => from_slot <= slot);
    const isNear =
      below !== undefined &&
      (slot <= below.to_slot || (slot <= below.to_slot + MAX_DISTANCE && slot - below.from_slot < MAX_LENGTH));
    const range = isNear ? below : ranges.length < MAX_RANGES ? undefined : (below ?? ranges.at(-1));
    if (range === undefined) {
      const values = [[number, chain, slot, slot, events, reason, now, now]];
      const columns = ['number', 'chain', 'from_slot', 'to_slot', 'events', 'reason', 'created_at', 'updated_at'];
      await tx.insertMany('webhook_missed', columns, values);
      continue;
    }
    await db
      .updateTable('webhook_missed')
      .set({
        from_slot: Math.min(range.from_slot, slot),
        to_slot: Math.max(range.to_slot, slot),
        events: range.events + events,
        reason,
        updated_at: now,
      })
      .where('number', '=', number)
      .where('chain', '=', chain)
      .where('from_slot', '=', range.from_slot)
      .execute();
  }
}

/** Newest first. */
export async function readMissed(db: WebhookDb, number: number): Promise<readonly MissedRange[]> {
  const rows = await db
    .selectFrom('webhook_missed')
    .selectAll()
    .where('number', '=', number)
    .orderBy('from_slot', 'desc')
    .execute();
  return rows.map((row) => ({
    chain: row.chain as ChainId,
    fromSlot: row.from_slot,
    toSlot: row.to_slot,
    events: row.events,
    reason: row.reason as MissReason,
    since: row.created_at,
    updatedAt: row.updated_at,
  }));
}

/** Deletes replayed ranges, but not events missed since `before` (unix milliseconds). */
export async function forgetMissed(
  tx: StoreTx,
  read: {
    readonly number: number;
    readonly chain: ChainId;
    readonly fromSlot: number;
    readonly toSlot: number;
    readonly before: number;
  },
): Promise<void> {
  await (tx.db as WebhookDb)
    .deleteFrom('webhook_missed')
    .where('number', '=', read.number)
    .where('chain', '=', read.chain)
    .where('from_slot', '>=', read.fromSlot)
    .where('to_slot', '<=', read.toSlot)
    .where('updated_at', '<', read.before)
    .execute();
}
