import type { ChainId } from '../ports/chain.ts';
import type { Queries, StoreTx } from '../ports/store.ts';
import { followTables } from './tables.ts';

export interface ChainMarks {
  readonly floor: number;
  readonly finalizedSlot: number | null;
}

export async function readMarks(db: Queries, chain: ChainId): Promise<ChainMarks | null> {
  const row = await followTables(db)
    .selectFrom('follow_chains')
    .select(['floor_slot', 'finalized_slot'])
    .where('chain', '=', chain)
    .executeTakeFirst();
  return row === undefined ? null : { floor: row.floor_slot, finalizedSlot: row.finalized_slot };
}

/** Where the chain, or the part behind a gap, begins. */
export async function writeFloor(tx: StoreTx, chain: ChainId, floor: number): Promise<void> {
  await followTables(tx.db)
    .insertInto('follow_chains')
    .values({ chain, floor_slot: floor, finalized_slot: null })
    .onConflict((conflict) => conflict.column('chain').doUpdateSet({ floor_slot: floor }))
    .execute();
}

/** Where the chain begins, unless that is known. Gives what holds. */
export async function writeFirstFloor(tx: StoreTx, chain: ChainId, floor: number): Promise<number> {
  await followTables(tx.db)
    .insertInto('follow_chains')
    .values({ chain, floor_slot: floor, finalized_slot: null })
    .onConflict((conflict) => conflict.column('chain').doNothing())
    .execute();
  return (await readMarks(tx.db, chain))?.floor ?? floor;
}

/** The mark never goes back. */
export async function writeFinalized(tx: StoreTx, chain: ChainId, slot: number): Promise<void> {
  await followTables(tx.db)
    .updateTable('follow_chains')
    .set({ finalized_slot: slot })
    .where('chain', '=', chain)
    .where((eb) => eb.or([eb('finalized_slot', 'is', null), eb('finalized_slot', '<', slot)]))
    .execute();
}

/** Moves the mark back to a slot, for a rewind. */
export async function resetFinalized(tx: StoreTx, chain: ChainId, slot: number): Promise<void> {
  await followTables(tx.db)
    .updateTable('follow_chains')
    .set({ finalized_slot: slot })
    .where('chain', '=', chain)
    .where('finalized_slot', '>', slot)
    .execute();
}
