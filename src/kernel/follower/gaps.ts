import type { ChainId } from '../../ports/chain.ts';
import type { Queries, StoreTx } from '../../ports/store.ts';
import { writeFloor } from './chain-row.ts';
import type { CursorOwner } from './positions.ts';
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

/** Notes that one processor misses a range, and lets it go on behind it. */
export async function recordProcessorGap(
  tx: StoreTx,
  chain: ChainId,
  { name, version }: CursorOwner,
  gap: Gap,
  now: number,
): Promise<void> {
  await followTables(tx.db)
    .insertInto('follow_processor_gaps')
    .values({
      ...{ chain, processor: name, version, from_slot: gap.fromSlot, to_slot: gap.toSlot },
      ...{ reason: gap.reason, detected_at: now, status: 'open' },
    })
    .onConflict((conflict) =>
      conflict.columns(['chain', 'processor', 'version', 'from_slot']).doUpdateSet({ to_slot: gap.toSlot }),
    )
    .execute();
}

/** Whether the chain itself has given up this slot. */
export async function isInGap(db: Queries, chain: ChainId, slot: number): Promise<boolean> {
  const row = await followTables(db)
    .selectFrom('follow_gaps')
    .select('id')
    .where('chain', '=', chain)
    .where('from_slot', '<=', slot)
    .where('to_slot', '>=', slot)
    .executeTakeFirst();
  return row !== undefined;
}

/** Of the chain and of its processors. */
export async function countOpenGaps(db: Queries, chain: ChainId): Promise<number> {
  let count = 0;
  for (const table of ['follow_gaps', 'follow_processor_gaps'] as const) {
    const row = await followTables(db)
      .selectFrom(table)
      .select((eb) => eb.fn.countAll<number>().as('count'))
      .where('chain', '=', chain)
      .where('status', 'in', ['open', 'filling'])
      .executeTakeFirst();
    count += Number(row?.count ?? 0);
  }
  return count;
}
