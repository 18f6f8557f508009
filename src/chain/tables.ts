import { sql } from 'kysely';
import type { Dialect, Migration, Queries } from '../ports/store.ts';

/** Last block of a processor, or of the chain itself under the name `*`. */
interface CursorRow {
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
  /** `*` when the whole chain skipped the range, else the processor that skipped it while catching up. */
  readonly processor: string;
  readonly version: number;
  readonly from_slot: number;
  readonly to_slot: number;
  readonly reason: string;
  readonly detected_at: number;
  readonly status: string;
  /** The last block below the gap, where it is known. */
  readonly below_slot: number | null;
  readonly below_hash: string | null;
  /** The first block above the gap, and the parent it names: the last block of the gap. Null until there is one. */
  readonly above_slot: number | null;
  readonly above_parent_slot: number | null;
  readonly above_parent_hash: string | null;
  /** 1 when the end comes from an upstream and not from a released block. */
  readonly is_end_asked: number;
  readonly trouble: string | null;
  /** Unix ms of the last attempt to fill it. */
  readonly tried_at: number | null;
  /** Unix ms at which an operator last asked for it. */
  readonly wanted_at: number | null;
  readonly filled_at: number | null;
  /** JSON list: instead of its blocks, the transactions of these addresses are read. */
  readonly addresses: string | null;
}

/** A processor that missed a gap, and the last block of the gap it has applied since. */
export interface GapFillRow {
  readonly gap_id: number;
  readonly processor: string;
  readonly version: number;
  readonly slot: number | null;
  /** Empty where single transactions were applied instead of the block. */
  readonly blockhash: string | null;
  readonly is_done: number;
}

interface ChainRow {
  readonly chain: string;
  /** The first block at or above it is accepted without its parent. */
  readonly floor_slot: number;
  readonly finalized_slot: number | null;
}

/** Which process follows a chain, where several could. */
export interface LeaderRow {
  readonly chain: string;
  /** Number of leaders so far; every write of the leader proves it. */
  readonly epoch: number;
  /** Null when the last one has resigned. */
  readonly holder: string | null;
  /** Moves as long as the leader lives. */
  readonly beat: number;
}

/** A block that was rolled back while the rows of one processor were kept. */
interface PendingRevertRow extends HeaderRow {
  readonly processor: string;
  readonly version: number;
}

export interface FollowTables {
  readonly follow_cursors: CursorRow;
  readonly follow_headers: HeaderRow;
  readonly follow_gaps: GapRow;
  readonly follow_gap_fills: GapFillRow;
  readonly follow_chains: ChainRow;
  readonly follow_leaders: LeaderRow;
  readonly follow_pending_reverts: PendingRevertRow;
}

export const followTables = (db: Queries) => db as unknown as Queries<FollowTables>;

/** The name under which the chain's own cursor is kept. */
export const MAIN = { name: '*', version: 0 } as const;

/** The ledger among the processors that miss a gap; no plugin has the id `kernel`. */
export const KEPT = { name: 'kernel.ledger', version: 1 } as const;

/** Scope `kernel.follower`. */
export const followerMigrations: readonly Migration[] = [
  {
    version: 1,
    name: 'create the tables of the follower',
    breaking: true,
    async up({ db, dialect }) {
      const header = sql.raw(`slot bigint not null, parent_slot bigint not null, blockhash text not null,
        previous_blockhash text not null, block_height bigint, block_time bigint`);
      await sql`create table follow_chains (
        chain text not null primary key, floor_slot bigint not null, finalized_slot bigint)`.execute(db);
      await sql`create table follow_cursors (
        chain text not null, processor text not null, version integer not null,
        slot bigint not null, blockhash text not null, block_time bigint,
        primary key (chain, processor, version))`.execute(db);
      await sql`create table follow_headers (
        chain text not null, ${header}, primary key (chain, slot))`.execute(db);
      await sql`create table follow_gaps (
        id ${identity(dialect)}, chain text not null, processor text not null, version integer not null,
        from_slot bigint not null, to_slot bigint not null, reason text not null, detected_at bigint not null,
        status text not null, below_slot bigint, below_hash text,
        above_slot bigint, above_parent_slot bigint, above_parent_hash text, is_end_asked integer not null,
        trouble text, tried_at bigint, wanted_at bigint, filled_at bigint, addresses text)`.execute(db);
      await sql`create index follow_gaps_by_status on follow_gaps (chain, status)`.execute(db);
      await sql`create table follow_gap_fills (
        gap_id bigint not null, processor text not null, version integer not null,
        slot bigint, blockhash text, is_done integer not null,
        primary key (gap_id, processor, version))`.execute(db);
      await sql`create table follow_leaders (
        chain text not null primary key, epoch bigint not null, holder text, beat bigint not null)`.execute(db);
      await sql`create table follow_pending_reverts (
        chain text not null, processor text not null, version integer not null, ${header},
        primary key (chain, processor, version, slot))`.execute(db);
    },
  },
];

const identity = (dialect: Dialect) =>
  sql.raw(
    dialect === 'postgres'
      ? 'bigint generated by default as identity primary key'
      : 'integer primary key autoincrement',
  );
