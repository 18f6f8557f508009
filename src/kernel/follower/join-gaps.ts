import type { ChainId } from '../../ports/chain.ts';
import type { StoreTx } from '../../ports/store.ts';
import { readMarks } from './chain-row.ts';
import type { Position } from './decide.ts';
import { recordGap } from './gaps.ts';
import type { CursorOwner } from './positions.ts';
import { followTables, MAIN } from './tables.ts';

/**
 * After a roll-back to a block that stands below gaps: the chain goes on behind the newest of them, so everything between that block
 * and there is missing now. What is open in it becomes one gap, which is to be filled from its beginning. Called in the transaction
 * of the roll-back.
 */
export async function joinGaps(
  tx: StoreTx,
  chain: ChainId,
  below: Position,
  missing: readonly CursorOwner[],
  now: number,
): Promise<void> {
  const floor = (await readMarks(tx.db, chain))?.floor ?? 0;
  if (below.slot + 1 >= floor) return;
  const gap = { fromSlot: below.slot + 1, toSlot: floor - 1 };
  const inside = await gapsWithin(tx, chain, gap);
  const isCovered = inside.some(({ from_slot, to_slot }) => from_slot === gap.fromSlot && to_slot === gap.toSlot);
  if (isCovered) return;
  const tables = followTables(tx.db);
  const open = inside.filter(({ status }) => status === 'open' || status === 'filling');
  const ids = open.map(({ id }) => id);
  let owners = missing;
  if (ids.length > 0) {
    const fills = await tables.selectFrom('follow_gap_fills').selectAll().where('gap_id', 'in', ids).execute();
    owners = [...missing, ...fills.map(({ processor, version }) => ({ name: processor, version }))];
    await tables.deleteFrom('follow_gap_fills').where('gap_id', 'in', ids).execute();
    await tables.deleteFrom('follow_gaps').where('id', 'in', ids).execute();
  }
  const reason = (open[0]?.reason ?? 'hole') as 'hole';
  await recordGap(tx, chain, { ...gap, reason, below }, owners, open[0]?.detected_at ?? now);
}

/** Those of the chain itself, oldest slots first. */
async function gapsWithin(
  { db }: StoreTx,
  chain: ChainId,
  { fromSlot, toSlot }: { readonly fromSlot: number; readonly toSlot: number },
) {
  return await followTables(db)
    .selectFrom('follow_gaps')
    .select(['id', 'from_slot', 'to_slot', 'status', 'reason', 'detected_at'])
    .where('chain', '=', chain)
    .where('processor', '=', MAIN.name)
    .where('reason', '!=', 'manual')
    .where('from_slot', '>=', fromSlot)
    .where('to_slot', '<=', toSlot)
    .orderBy('from_slot')
    .execute();
}
