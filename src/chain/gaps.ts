import type { BlockHeader } from '../ports/block.ts';
import type { ChainId } from '../ports/chain.ts';
import type { Clock } from '../ports/clock.ts';
import type { GapBook, GapReason } from '../ports/gaps.ts';
import type { Queries, Store, StoreTx } from '../ports/store.ts';
import { recordManualGap, wantGaps } from './backfill/gap-changes.ts';
import { gapView, readGaps } from './backfill/gap-record.ts';
import { writeFloor } from './chain-row.ts';
import type { Position } from './decide.ts';
import type { CursorOwner } from './positions.ts';
import { followTables, MAIN } from './tables.ts';

export interface Gap {
  readonly fromSlot: number;
  /** Inclusive. */
  readonly toSlot: number;
  readonly reason: Exclude<GapReason, 'manual'>;
  /** The last block before it; null when nothing comes before it. */
  readonly below: Position | null;
}

/** Notes that a range is missing in these processors and lets the chain go on behind it. A gap that grows stays one record. */
export async function recordGap(
  tx: StoreTx,
  chain: ChainId,
  gap: Gap,
  missing: readonly CursorOwner[],
  now: number,
): Promise<void> {
  if (missing.length > 0) await upsertGap(tx, chain, MAIN, await withNeighbour(tx, chain, gap), missing, now);
  await writeFloor(tx, chain, gap.toSlot + 1);
}

/** Where nothing was released since the gap right below it, both are one. */
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

/** Notes that one processor misses a range, and lets it go on behind it. */
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
): Promise<void> {
  const tables = followTables(tx.db);
  // While nothing was released behind it, it may grow; downwards when the block below it was rolled back.
  const grown = await tables
    .updateTable('follow_gaps')
    .set({
      ...{ from_slot: gap.fromSlot, to_slot: gap.toSlot },
      ...{ below_slot: gap.below?.slot ?? null, below_hash: gap.below?.blockhash ?? null },
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
        ...{ chain, processor: name, version, from_slot: gap.fromSlot, to_slot: gap.toSlot, reason: gap.reason },
        ...{ detected_at: now, status: 'open', is_end_asked: 0 },
        ...{ below_slot: gap.below?.slot ?? null, below_hash: gap.below?.blockhash ?? null },
      })
      .returning('id')
      .executeTakeFirstOrThrow());
  await tx.insertMany(
    'follow_gap_fills',
    ['gap_id', 'processor', 'version', 'is_done'],
    missing.map((owner) => [id, owner.name, owner.version, 0]),
    'ignore',
  );
}

/** Notes which block came first behind the gap: its parent is the gap's last block. Called with the first block behind a gap. */
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

/** Forgets first blocks behind gaps that were rolled back. */
export async function forgetEnds(tx: StoreTx, chain: ChainId, keepSlot: number): Promise<void> {
  await followTables(tx.db)
    .updateTable('follow_gaps')
    .set({ above_slot: null, above_parent_slot: null, above_parent_hash: null })
    .where('chain', '=', chain)
    .where('reason', '!=', 'manual')
    .where('above_slot', '>', keepSlot)
    .execute();
}

/** Whether the chain itself has given up this slot. */
export async function isInGap(db: Queries, chain: ChainId, slot: number): Promise<boolean> {
  const row = await followTables(db)
    .selectFrom('follow_gaps')
    .select('id')
    .where('chain', '=', chain)
    .where('processor', '=', MAIN.name)
    .where('reason', '!=', 'manual')
    .where('from_slot', '<=', slot)
    .where('to_slot', '>=', slot)
    .executeTakeFirst();
  return row !== undefined;
}

/** Reads the gap records of a store, and adds to them. */
export const createGapBook = (store: Store, clock: Pick<Clock, 'now'>): GapBook => ({
  list: async (filter) => (await readGaps(store.read, filter)).map(gapView),
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
