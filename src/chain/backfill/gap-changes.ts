import { CodedError } from '../../lib/coded-error.ts';
import type { ChainId } from '../../ports/chain.ts';
import type { StoreTx } from '../../ports/store.ts';
import type { Position } from '../decide.ts';
import type { CursorOwner } from '../positions.ts';
import { followTables, type GapRow, MAIN } from '../tables.ts';
import type { GapEnd, GapFill, GapRecord } from './gap-record.ts';

const OPEN = ['open', 'filling'] as const;

/**
 * Moves processors on inside a gap and proves on the way that they stood where we think and that the gap is still to be filled. Comes
 * first in a transaction. Errors: FOLLOW_GAP_TAKEN.
 */
export async function moveFills(
  tx: StoreTx,
  gap: Pick<GapRecord, 'id'>,
  fills: readonly GapFill[],
  to: Position,
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

const taken = (id: number) =>
  new CodedError('FOLLOW_GAP_TAKEN', `gap ${id} was changed by another process while it was being filled`, {
    retryable: true,
    facts: { gap: id },
  });

/** Notes that processors have seen all of a gap; once none is left it is filled. Returns whether it is. */
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

/** Lets processors begin the gap anew. */
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

/** Notes what an upstream says of the gap's end; null: it is to be asked for. */
export async function setAskedEnd(tx: StoreTx, { id }: Pick<GapRecord, 'id'>, end: GapEnd | null): Promise<void> {
  await followTables(tx.db)
    .updateTable('follow_gaps')
    .set({
      above_slot: end?.slot ?? null,
      above_parent_slot: end?.parentSlot ?? null,
      above_parent_hash: end?.previousBlockhash ?? null,
      is_end_asked: 1,
    })
    .where('id', '=', id)
    .execute();
}

/** Notes why a gap is not being filled; `triedAt` (unix ms) when something outside has to change first. */
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

/**
 * Cuts a gap in two below a block that can be had, `first`: what nobody has any more stays as it is, the rest becomes a gap of its
 * own. Returns its id.
 */
export async function splitGap(tx: StoreTx, gap: GapRecord, first: GapEnd): Promise<number> {
  const fromSlot = first.parentSlot + 1;
  const tables = followTables(tx.db);
  const { numUpdatedRows } = await tables
    .updateTable('follow_gaps')
    .set({ to_slot: first.parentSlot })
    .where('id', '=', gap.id)
    .where('to_slot', '=', gap.toSlot)
    .where('status', 'in', OPEN)
    .executeTakeFirst();
  if (Number(numUpdatedRows) !== 1) throw taken(gap.id);
  await setAskedEnd(tx, gap, first);
  const owner = gap.owner ?? MAIN;
  return await insertGap(
    tx,
    {
      ...{ chain: gap.chain, processor: owner.name, version: owner.version, from_slot: fromSlot, to_slot: gap.toSlot },
      ...{ reason: gap.reason, detected_at: gap.detectedAt, wanted_at: gap.wantedAt },
      ...{ above_slot: gap.end?.slot ?? null, above_parent_slot: gap.end?.parentSlot ?? null },
      ...{ above_parent_hash: gap.end?.previousBlockhash ?? null, is_end_asked: gap.isEndAsked ? 1 : 0 },
    },
    gap.fills.filter(({ isDone }) => !isDone),
  );
}

/**
 * Records that someone wants a range to be read, again if need be: its blocks, or only the transactions of some addresses. Returns the
 * id.
 */
export async function recordManualGap(
  tx: StoreTx,
  chain: ChainId,
  range: { readonly fromSlot: number; readonly toSlot: number },
  owners: readonly CursorOwner[],
  now: number,
  addresses: readonly string[] | null = null,
): Promise<number> {
  return await insertGap(
    tx,
    {
      ...{ chain, processor: MAIN.name, version: MAIN.version, from_slot: range.fromSlot, to_slot: range.toSlot },
      ...{ reason: 'manual', detected_at: now, wanted_at: now, is_end_asked: 1 },
      addresses: addresses === null ? null : JSON.stringify(addresses),
    },
    owners,
  );
}

type NewGap = Pick<
  GapRow,
  'processor' | 'version' | 'from_slot' | 'to_slot' | 'reason' | 'detected_at' | 'wanted_at' | 'is_end_asked'
> &
  Partial<Pick<GapRow, 'above_slot' | 'above_parent_slot' | 'above_parent_hash' | 'addresses'>> & {
    readonly chain: ChainId;
  };

async function insertGap(tx: StoreTx, gap: NewGap, owners: readonly CursorOwner[]): Promise<number> {
  const { id } = await followTables(tx.db)
    .insertInto('follow_gaps')
    .values({ id: undefined as never, status: 'open', ...gap })
    .returning('id')
    .executeTakeFirstOrThrow();
  await tx.insertMany(
    'follow_gap_fills',
    ['gap_id', 'processor', 'version', 'is_done'],
    owners.map(({ name, version }) => [id, name, version, 0]),
  );
  return id;
}

/** Has gaps looked at at once, whatever pause they are in. Returns how many there are. */
export async function wantGaps(tx: StoreTx, ids: readonly number[], now: number): Promise<number> {
  if (ids.length === 0) return 0;
  const { numUpdatedRows } = await followTables(tx.db)
    .updateTable('follow_gaps')
    .set({ wanted_at: now })
    .where('id', 'in', ids)
    .where('status', 'in', OPEN)
    .executeTakeFirst();
  return Number(numUpdatedRows);
}

/** Gives a gap up for good. Returns whether it was open. */
export async function abandonGap(tx: StoreTx, id: number): Promise<boolean> {
  const { numUpdatedRows } = await followTables(tx.db)
    .updateTable('follow_gaps')
    .set({ status: 'abandoned' })
    .where('id', '=', id)
    .where('status', 'in', OPEN)
    .executeTakeFirst();
  return Number(numUpdatedRows) === 1;
}
