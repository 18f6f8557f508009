/** Gaps as they stand in the store: which slots are missing, in which processors, and how far each has come. */
import type { ChainId } from '../ports/chain.ts';
import type { ChainGap, GapFilter, GapReason, GapStatus } from '../ports/following.ts';
import type { Queries } from '../ports/store.ts';
import type { BlockPosition } from './cursor.ts';
import type { FollowState } from './state.ts';
import { followTables, type GapFillRow, type GapRow, MAIN } from './tables.ts';

/** Progress of one processor in a gap. */
export interface GapFill {
  readonly name: string;
  readonly version: number;
  /** The last block it has applied there; null before the first. An empty hash stands for single transactions of that slot. */
  readonly position: BlockPosition | null;
  readonly isDone: boolean;
}

/** The first block above a gap, which names the gap's last block. */
export interface GapEnd {
  readonly slot: number;
  readonly parentSlot: number;
  readonly previousBlockhash: string;
}

export interface GapRecord {
  readonly id: number;
  readonly chain: ChainId;
  /** Null when the whole chain skipped it. */
  readonly owner: { readonly name: string; readonly version: number } | null;
  readonly fromSlot: number;
  /** Inclusive. */
  readonly toSlot: number;
  readonly reason: GapReason;
  readonly detectedAt: number;
  readonly status: GapStatus;
  readonly below: BlockPosition | null;
  readonly end: GapEnd | null;
  /** Whether the end comes from an upstream and not from a released block. */
  readonly isEndAsked: boolean;
  readonly trouble: string | null;
  readonly triedAt: number | null;
  readonly wantedAt: number | null;
  /** Instead of its blocks, the transactions of these addresses are read; null for blocks. */
  readonly addresses: readonly string[] | null;
  readonly fills: readonly GapFill[];
}

const MAX_GAPS = 1_000;

/** Newest first. */
export async function readGaps(db: Queries, filter: GapFilter = {}): Promise<GapRecord[]> {
  const tables = followTables(db);
  let query = tables
    .selectFrom('follow_gaps')
    .selectAll()
    .orderBy('id', 'desc')
    .limit(Math.min(MAX_GAPS, filter.limit ?? 100));
  if (filter.chain !== undefined) query = query.where('chain', '=', filter.chain);
  if (filter.isOpen === true) query = query.where('status', 'in', ['open', 'filling']);
  if (filter.beforeId !== undefined) query = query.where('id', '<', filter.beforeId);
  const { processor } = filter;
  if (processor !== undefined)
    query = query.where((eb) =>
      eb.exists(
        eb
          .selectFrom('follow_gap_fills')
          .select('follow_gap_fills.slot')
          .whereRef('follow_gap_fills.gap_id', '=', 'follow_gaps.id')
          .where('follow_gap_fills.processor', '=', processor),
      ),
    );
  const rows = await query.execute();
  if (rows.length === 0) return [];
  const fills = await tables
    .selectFrom('follow_gap_fills')
    .selectAll()
    .where(
      'gap_id',
      'in',
      rows.map(({ id }) => id),
    )
    .orderBy('processor')
    .execute();
  const byGap = new Map<number, GapFillRow[]>();
  for (const fill of fills) byGap.set(fill.gap_id, [...(byGap.get(fill.gap_id) ?? []), fill]);
  return rows.map((row) => recordOf(row, byGap.get(row.id) ?? []));
}

export async function readGap(db: Queries, id: number): Promise<GapRecord | null> {
  const [found] = await readGaps(db, { beforeId: id + 1, limit: 1 });
  return found?.id === id ? found : null;
}

function recordOf(row: GapRow, fills: readonly GapFillRow[]): GapRecord {
  return {
    id: row.id,
    chain: row.chain as ChainId,
    owner: row.processor === MAIN.name ? null : { name: row.processor, version: row.version },
    fromSlot: row.from_slot,
    toSlot: row.to_slot,
    reason: row.reason as GapReason,
    detectedAt: row.detected_at,
    status: row.status as GapStatus,
    below:
      row.below_slot === null || row.below_hash === null ? null : { slot: row.below_slot, blockhash: row.below_hash },
    end:
      row.above_slot === null || row.above_parent_slot === null || row.above_parent_hash === null
        ? null
        : { slot: row.above_slot, parentSlot: row.above_parent_slot, previousBlockhash: row.above_parent_hash },
    isEndAsked: row.is_end_asked !== 0,
    trouble: row.trouble,
    triedAt: row.tried_at,
    wantedAt: row.wanted_at,
    addresses: row.addresses === null ? null : (JSON.parse(row.addresses) as string[]),
    fills: fills.map((fill) => ({
      name: fill.processor,
      version: fill.version,
      position: fill.slot === null ? null : { slot: fill.slot, blockhash: fill.blockhash ?? '' },
      isDone: fill.is_done !== 0,
    })),
  };
}

/** Slot up to which all processors have applied the gap's blocks; null before the first one. */
export function filledTo({ fills, status, toSlot }: GapRecord): number | null {
  if (status === 'filled') return toSlot;
  const slots = fills.map(({ isDone, position }) => (isDone ? toSlot : (position?.slot ?? -1)));
  const least = slots.length === 0 ? -1 : Math.min(...slots);
  return least < 0 ? null : least;
}

/** Slots that some processor has not applied yet. */
export const missingSlots = (gap: GapRecord): number =>
  Math.max(0, gap.toSlot - Math.max(gap.fromSlot - 1, filledTo(gap) ?? -1));

export const gapView = (gap: GapRecord): ChainGap => ({
  id: gap.id,
  chain: gap.chain,
  fromSlot: gap.fromSlot,
  toSlot: gap.toSlot,
  reason: gap.reason,
  detectedAt: gap.detectedAt,
  status: gap.status,
  processors: gap.fills.map(({ name }) => name),
  filledTo: filledTo(gap),
  trouble: gap.trouble,
});

/** Whether this slot is in a gap of the chain itself. */
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

/** Gaps that the status lists. */
const MAX_SHOWN = 20;

/** Reads the open gaps into the state. */
export async function countGaps(db: Queries, chain: ChainId, state: FollowState): Promise<void> {
  const open = await readGaps(db, { chain, isOpen: true, limit: 1_000 });
  state.openGaps = open.length;
  state.gapSlots = open.reduce((sum, gap) => sum + missingSlots(gap), 0);
  state.gaps = open.slice(-MAX_SHOWN).reverse().map(gapView);
}
