/** How gaps come to be, grow, get their end, are split, asked for and abandoned. `gap-records.ts` reads them, `gap-fills.ts` fills them. */
import type { BlockHeader } from '../ports/block.ts';
import type { ChainId } from '../ports/chain.ts';
import type { Clock } from '../ports/clock.ts';
import type { GapReason, GapRecords } from '../ports/following.ts';
import type { Store, StoreTx } from '../ports/store.ts';
import { type BlockPosition, type CursorOwner, writeFloor } from './cursor.ts';
import { finishFills, OPEN, taken } from './gap-fills.ts';
import { type GapEnd, type GapRecord, gapView, readGaps } from './gap-records.ts';
import { followTables, type GapRow, MAIN } from './tables.ts';

export interface Gap {
  readonly fromSlot: number;
  /** Inclusive. */
  readonly toSlot: number;
  readonly reason: Exclude<GapReason, 'manual'>;
  /** The last block before it; null when nothing comes before it. */
  readonly below: BlockPosition | null;
}

/**
 * Records that a range is missing in these processors and lets the chain continue above it. A gap that grows stays one record. One that
 * nobody lacks is closed at once: lanes that come by learn from it that the chain has passed over these slots.
 */
export async function recordGap(
  tx: StoreTx,
  chain: ChainId,
  gap: Gap,
  missing: readonly CursorOwner[],
  now: number,
): Promise<void> {
  const id = await upsertGap(tx, chain, MAIN, await withNeighbour(tx, chain, gap), missing, now);
  if (missing.length === 0) await finishFills(tx, { id }, [], now);
  await writeFloor(tx, chain, gap.toSlot + 1);
}

/** Merges it with the gap directly below, where nothing was released between them. */
async function withNeighbour(tx: StoreTx, chain: ChainId, gap: Gap): Promise<Gap> {
  const lower = await followTables(tx.db)
    .selectFrom('follow_gaps')
    .select(['from_slot', 'below_slot', 'below_hash'])
    .where('chain', '=', chain)
    .where('processor', '=', MAIN.name)
    .where('to_slot', '=', gap.fromSlot - 1)
    .where('status', '=', 'open')
    .where('above_slot', 'is', null)
    .where('is_end_asked', '=', 0)
    .executeTakeFirst();
  if (lower === undefined) return gap;
  const { from_slot: fromSlot, below_slot: slot, below_hash: blockhash } = lower;
  return { ...gap, fromSlot, below: slot === null || blockhash === null ? null : { slot, blockhash } };
}

/** Records that one processor misses a range, and lets it continue above it. */
export async function recordProcessorGap(
  tx: StoreTx,
  chain: ChainId,
  owner: CursorOwner,
  gap: Gap,
  now: number,
): Promise<void> {
  await upsertGap(tx, chain, owner, gap, [owner], now);
}

async function upsertGap(
  tx: StoreTx,
  chain: ChainId,
  { name, version }: CursorOwner,
  gap: Gap,
  missing: readonly CursorOwner[],
  now: number,
): Promise<number> {
  const tables = followTables(tx.db);
  // While nothing was released above it, it may grow; downwards when the block below it was rolled back.
  const grown = await tables
    .updateTable('follow_gaps')
    .set({
      from_slot: gap.fromSlot,
      to_slot: gap.toSlot,
      below_slot: gap.below?.slot ?? null,
      below_hash: gap.below?.blockhash ?? null,
    })
    .where('chain', '=', chain)
    .where('processor', '=', name)
    .where('version', '=', version)
    .where('from_slot', '>=', gap.fromSlot)
    .where('to_slot', '<=', gap.toSlot)
    .where('status', '=', 'open')
    .where('reason', gap.reason === 'skipped' ? '=' : '!=', 'skipped')
    .where('above_slot', 'is', null)
    .where('is_end_asked', '=', 0)
    .returning('id')
    .executeTakeFirst();
  const { id } =
    grown ??
    (await tables
      .insertInto('follow_gaps')
      .values({
        id: undefined as never,
        chain,
        processor: name,
        version,
        from_slot: gap.fromSlot,
        to_slot: gap.toSlot,
        reason: gap.reason,
        detected_at: now,
        status: 'open',
        is_end_asked: 0,
        below_slot: gap.below?.slot ?? null,
        below_hash: gap.below?.blockhash ?? null,
      })
      .returning('id')
      .executeTakeFirstOrThrow());
  await tx.insertMany(
    'follow_gap_fills',
    ['gap_id', 'processor', 'version', 'is_done'],
    missing.map((owner) => [id, owner.name, owner.version, 0]),
    'ignore',
  );
  return id;
}

/** Records the first block above the gap: its parent is the gap's last block. */
export async function noteEnd(
  tx: StoreTx,
  chain: ChainId,
  { name, version }: CursorOwner,
  first: BlockHeader,
): Promise<void> {
  await followTables(tx.db)
    .updateTable('follow_gaps')
    .set({ above_slot: first.slot, above_parent_slot: first.parentSlot, above_parent_hash: first.previousBlockhash })
    .where('chain', '=', chain)
    .where('processor', '=', name)
    .where('version', '=', version)
    .where('reason', '!=', 'manual')
    .where('above_slot', 'is', null)
    .where('to_slot', '<', first.slot)
    .where('to_slot', '>=', first.parentSlot)
    .execute();
}

/** Removes the ends of gaps whose first block above was rolled back. */
export async function forgetEnds(tx: StoreTx, chain: ChainId, keepSlot: number): Promise<void> {
  await followTables(tx.db)
    .updateTable('follow_gaps')
    .set({ above_slot: null, above_parent_slot: null, above_parent_hash: null })
    .where('chain', '=', chain)
    .where('reason', '!=', 'manual')
    .where('above_slot', '>', keepSlot)
    .execute();
}

/** Reads the gap records of a store, and adds to them. */
export const createGapRecords = (store: Store, clock: Pick<Clock, 'now'>): GapRecords => ({
  list: async (filter) => (await readGaps(store.read, filter)).map(gapView),
  async missingTo(db, chain, processor) {
    const newest = await followTables(db)
      .selectFrom('follow_gaps as g')
      .innerJoin('follow_gap_fills as f', 'f.gap_id', 'g.id')
      .select((is) => is.fn.max('g.to_slot').as('slot'))
      .where('g.chain', '=', chain)
      .where('f.processor', '=', processor)
      .where('f.is_done', '=', 0)
      .where('g.status', '!=', 'filled')
      // One that was skipped has a cursor of its own, and nothing above it.
      .where('g.reason', 'not in', ['manual', 'skipped'])
      .executeTakeFirst();
    return newest?.slot == null ? null : Number(newest.slot);
  },
  async request(tx, { chain, processor, fromSlot, toSlot, addresses }) {
    const open = await readGaps(tx.db, { chain, processor: processor.name, isOpen: true, limit: 1_000 });
    const same = open.find(
      (gap) =>
        gap.reason === 'manual' &&
        gap.fromSlot === fromSlot &&
        gap.toSlot === toSlot &&
        gap.fills.every(({ name, version }) => name === processor.name && version === processor.version) &&
        JSON.stringify(gap.addresses) === JSON.stringify(addresses),
    );
    if (same === undefined)
      return await recordManualGap(tx, chain, { fromSlot, toSlot }, [processor], clock.now(), addresses);
    await wantGaps(tx, [same.id], clock.now());
    return same.id;
  },
});

/** Records the gap's end as an upstream reports it; null: it has to be requested. */
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

/**
 * Splits a gap below an available block, `first`: what no upstream has any more stays as it is, the rest becomes a gap of its own.
 * Returns its id.
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
      chain: gap.chain,
      processor: owner.name,
      version: owner.version,
      from_slot: fromSlot,
      to_slot: gap.toSlot,
      reason: gap.reason,
      detected_at: gap.detectedAt,
      wanted_at: gap.wantedAt,
      above_slot: gap.end?.slot ?? null,
      above_parent_slot: gap.end?.parentSlot ?? null,
      above_parent_hash: gap.end?.previousBlockhash ?? null,
      is_end_asked: gap.isEndAsked ? 1 : 0,
    },
    gap.fills.filter(({ isDone }) => !isDone),
  );
}

/**
 * Records a request to read a range, again if need be: its blocks, or only the transactions of some addresses. Returns the id.
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
      chain,
      processor: MAIN.name,
      version: MAIN.version,
      from_slot: range.fromSlot,
      to_slot: range.toSlot,
      reason: 'manual',
      detected_at: now,
      wanted_at: now,
      is_end_asked: 1,
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

/** Ends the pauses of gaps. Returns how many are open. */
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

/** Abandons a gap for good. Returns whether it was open. */
export async function abandonGap(tx: StoreTx, id: number): Promise<boolean> {
  const { numUpdatedRows } = await followTables(tx.db)
    .updateTable('follow_gaps')
    .set({ status: 'abandoned' })
    .where('id', '=', id)
    .where('status', 'in', OPEN)
    .executeTakeFirst();
  return Number(numUpdatedRows) === 1;
}
