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
  /** `*` when the whole chain passed over it, else the one that did while it caught up. */
  readonly processor: string;
  readonly version: number;
  readonly from_slot: number;
  readonly to_slot: number;
  readonly reason: string;
  readonly detected_at: number;
  readonly status: string;
  /** The block that stands below, where it is known. */
  readonly below_slot: number | null;
  readonly below_hash: string | null;
  /** The first block behind it, and which block that names as its parent: the last one of the gap. Null until there is one. */
  readonly above_slot: number | null;
  readonly above_parent_slot: number | null;
  readonly above_parent_hash: string | null;
  /** 1 when the end is what an upstream said and not a released block. */
  readonly is_end_asked: number;
  readonly trouble: string | null;
  /** Unix ms of the last try to fill it. */
  readonly tried_at: number | null;
  /** Unix ms at which an operator last asked for it. */
  readonly wanted_at: number | null;
  readonly filled_at: number | null;
  /** JSON list: instead of its blocks, the transactions of these addresses are read. */
  readonly addresses: string | null;
}

/** A processor that missed a gap, and the last block of the gap it has seen since. */
export interface GapFillRow {
  readonly gap_id: number;
  readonly processor: string;
  readonly version: number;
  readonly slot: number | null;
  /** Empty where single transactions stood for the block. */
  readonly blockhash: string | null;
  readonly is_done: number;
}

export interface ChainRow {
  readonly chain: string;
  /** The first block at or above it is accepted without its parent. */
  readonly floor_slot: number;
  readonly finalized_slot: number | null;
}

/** Who follows a chain, where several processes could. */
export interface LeaderRow {
  readonly chain: string;
  /** Counts the leaders; every write of the leader proves it. */
  readonly epoch: number;
  /** Null when the last one has resigned. */
  readonly holder: string | null;
  /** Moves as long as the leader lives. */
  readonly beat: number;
}

export interface FollowTables {
  readonly follow_cursors: CursorRow;
  readonly follow_headers: HeaderRow;
  readonly follow_gaps: GapRow;
  readonly follow_gap_fills: GapFillRow;
  readonly follow_chains: ChainRow;
  readonly follow_leaders: LeaderRow;
}

export const followTables = (db: Queries) => db as unknown as Queries<FollowTables>;

/** The name under which the chain's own cursor is kept. */
export const MAIN = { name: '*', version: 0 } as const;
