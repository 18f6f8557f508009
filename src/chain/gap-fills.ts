/** A gap while it is filled: each processor moves through it, proves where it was, and is done. */
import { CodedError } from '../lib/coded-error.ts';
import type { StoreTx } from '../ports/store.ts';
import type { BlockPosition, CursorOwner } from './cursor.ts';
import type { GapFill, GapRecord } from './gap-records.ts';
import { followTables } from './tables.ts';

/** A gap in one of these states is still to be filled. */
export const OPEN = ['open', 'filling'] as const;

/**
 * Moves processors within a gap and proves in the same statements that they were where we think and that the gap is still open. Comes
 * first in a transaction. Errors: FOLLOW_GAP_TAKEN.
 */
export async function moveFills(
  tx: StoreTx,
  gap: Pick<GapRecord, 'id'>,
  fills: readonly GapFill[],
  to: BlockPosition,
): Promise<void> {
  const tables = followTables(tx.db);
  const { numUpdatedRows: opened } = await tables
    .updateTable('follow_gaps')
    .set({ status: 'filling', trouble: null })
    .where('id', '=', gap.id)
    .where('status', 'in', OPEN)
    .executeTakeFirst();
  if (Number(opened) !== 1) throw taken(gap.id);
  for (const { name, version, position } of fills) {
    const { numUpdatedRows } = await tables
      .updateTable('follow_gap_fills')
      .set({ slot: to.slot, blockhash: to.blockhash })
      .where('gap_id', '=', gap.id)
      .where('processor', '=', name)
      .where('version', '=', version)
      .where('is_done', '=', 0)
      .where('slot', position === null ? 'is' : '=', position?.slot ?? null)
      .where('blockhash', position === null ? 'is' : '=', position?.blockhash ?? null)
      .executeTakeFirst();
    if (Number(numUpdatedRows) !== 1) throw taken(gap.id);
  }
}

export const taken = (id: number) =>
  new CodedError('FOLLOW_GAP_TAKEN', `gap ${id} was changed by another process while it was being filled`, {
    retryable: true,
    facts: { gap: id },
  });

/** Records that processors have applied all of a gap; when none is left the gap is filled. Returns whether it is. */
export async function finishFills(
  tx: StoreTx,
  { id }: Pick<GapRecord, 'id'>,
  owners: readonly CursorOwner[],
  now: number,
): Promise<boolean> {
  const tables = followTables(tx.db);
  for (const { name, version } of owners)
    await tables
      .updateTable('follow_gap_fills')
      .set({ is_done: 1 })
      .where('gap_id', '=', id)
      .where('processor', '=', name)
      .where('version', '=', version)
      .execute();
  const left = await tables
    .selectFrom('follow_gap_fills')
    .select('gap_id')
    .where('gap_id', '=', id)
    .where('is_done', '=', 0)
    .executeTakeFirst();
  if (left !== undefined) return false;
  await tables
    .updateTable('follow_gaps')
    .set({ status: 'filled', trouble: null, tried_at: now, filled_at: now })
    .where('id', '=', id)
    .where('status', 'in', OPEN)
    .execute();
  return true;
}

/** Restarts processors at the start of the gap. */
export async function restartFills(tx: StoreTx, { id }: Pick<GapRecord, 'id'>, fills: readonly GapFill[]) {
  for (const { name, version } of fills)
    await followTables(tx.db)
      .updateTable('follow_gap_fills')
      .set({ slot: null, blockhash: null })
      .where('gap_id', '=', id)
      .where('processor', '=', name)
      .where('version', '=', version)
      .where('is_done', '=', 0)
      .execute();
}

/** Records why a gap is not being filled; `triedAt` (unix ms) when something outside has to change first. */
export async function noteTrouble(
  tx: StoreTx,
  { id }: Pick<GapRecord, 'id'>,
  trouble: string,
  triedAt: number | null,
): Promise<void> {
  await followTables(tx.db)
    .updateTable('follow_gaps')
    .set({ trouble, ...(triedAt === null ? {} : { tried_at: triedAt }) })
    .where('id', '=', id)
    .where('status', 'in', OPEN)
    .execute();
}
