import type { Queries } from '../../ports/store.ts';

/** Where a processor, or with the name `*` the chain itself, stands. */
export interface CursorRow {
  readonly chain: string;
  readonly processor: string;
  readonly version: number;
  readonly slot: number;
  readonly blockhash: string;
  readonly block_time: number | null;
}

export interface HeaderRow {
  readonly chain: string;
  readonly slot: number;
  readonly parent_slot: number;
  readonly blockhash: string;
  readonly previous_blockhash: string;
  readonly block_height: number | null;
  readonly block_time: number | null;
}

export interface GapRow {
  readonly id: number;
  readonly chain: string;
  readonly from_slot: number;
  readonly to_slot: number;
  /** `pruned`, `too_old` or `hole`. */
  readonly reason: string;
  readonly detected_at: number;
  /** `open`, `filling`, `filled` or `abandoned`. */
  readonly status: string;
}

/** A range that one processor did not see while it caught up, though the chain as a whole may have had it. */
export interface ProcessorGapRow extends Omit<GapRow, 'id'> {
  readonly processor: string;
  readonly version: number;
}

export interface ChainRow {
  readonly chain: string;
  /** The first block at or above it is accepted without its parent. */
  readonly floor_slot: number;
  readonly finalized_slot: number | null;
}

export interface FollowTables {
  readonly follow_cursors: CursorRow;
  readonly follow_headers: HeaderRow;
  readonly follow_gaps: GapRow;
  readonly follow_processor_gaps: ProcessorGapRow;
  readonly follow_chains: ChainRow;
}

export const followTables = (db: Queries) => db as unknown as Queries<FollowTables>;

/** The name under which the chain's own cursor is kept. */
export const MAIN = { name: '*', version: 0 } as const;
