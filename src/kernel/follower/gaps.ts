import type { ChainId } from '../../ports/chain.ts';
import type { Queries, StoreTx } from '../../ports/store.ts';
import { writeFloor } from './chain-row.ts';
import { followTables } from './tables.ts';

/** `pruned`: no upstream has the blocks; `too_old`: farther back than is caught up; `hole`: given up by `follow.holePolicy`. */
export type GapReason = 'pruned' | 'too_old' | 'hole';

export interface Gap {
  readonly fromSlot: number;
  /** Inclusive. */
  readonly toSlot: number;
  readonly reason: GapReason;
}

/** Notes that a range is missing and lets the chain go on behind it. A gap that grows stays one record. */
export async function recordGap(tx: StoreTx, chain: ChainId, gap: Gap, now: number): Promise<void> {
  await followTables(tx.db)
    .insertInto('follow_gaps')
    .values({
      id: undefined as never,
      chain,
      from_slot: gap.fromSlot,
      to_slot: gap.toSlot,
      reason: gap.reason,
      detected_at: now,
      status: 'open',
    })
    .onConflict((conflict) => conflict.columns(['chain', 'from_slot']).doUpdateSet({ to_slot: gap.toSlot }))
    .execute();
  await writeFloor(tx, chain, gap.toSlot + 1);
}

export async function countOpenGaps(db: Queries, chain: ChainId): Promise<number> {
  const row = await followTables(db)
    .selectFrom('follow_gaps')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .where('chain', '=', chain)
    .where('status', 'in', ['open', 'filling'])
    .executeTakeFirst();
  return Number(row?.count ?? 0);
}
