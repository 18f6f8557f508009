import { sql } from 'kysely';
import type { Dialect, Migration, Queries } from '../ports/store.ts';

/** Where a processor, or with the name `*` the chain itself, stands. */
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

interface ChainRow {
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

/** A block that was rolled back, and whose rows of one processor are still there. */
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

/** Scope `kernel.follower`. */
export const followerMigrations: readonly Migration[] = [
  {
    version: 1,
    name: 'create cursors, headers and gaps',
    breaking: true,
    async up({ db, dialect }) {
      await sql`create table follow_cursors (
        chain text not null, processor text not null, version integer not null,
        slot bigint not null, blockhash text not null, block_time bigint,
        primary key (chain, processor, version))`.execute(db);
      await sql`create table follow_headers (
        chain text not null, slot bigint not null, parent_slot bigint not null, blockhash text not null,
        previous_blockhash text not null, block_height bigint, block_time bigint,
        primary key (chain, slot))`.execute(db);
      await sql`create table follow_gaps (
        id ${identity(dialect)}, chain text not null, from_slot bigint not null, to_slot bigint not null, reason text not null,
        detected_at bigint not null, status text not null, unique (chain, from_slot))`.execute(db);
      await sql`create table follow_chains (
        chain text not null primary key, floor_slot bigint not null, finalized_slot bigint)`.execute(db);
    },
  },
  {
    version: 2,
    name: 'create gaps of processors',
    breaking: false,
    async up({ db }) {
      await sql`create table follow_processor_gaps (
        chain text not null, processor text not null, version integer not null,
        from_slot bigint not null, to_slot bigint not null, reason text not null,
        detected_at bigint not null, status text not null,
        primary key (chain, processor, version, from_slot))`.execute(db);
    },
  },
  {
    version: 3,
    name: 'gaps know their ends and how far they are filled',
    breaking: true,
    async up({ db, dialect }) {
      await sql`alter table follow_gaps rename to follow_gaps_before`.execute(db);
      await sql`create table follow_gaps (
        id ${identity(dialect)}, chain text not null, processor text not null, version integer not null,
        from_slot bigint not null, to_slot bigint not null, reason text not null, detected_at bigint not null,
        status text not null, below_slot bigint, below_hash text,
        above_slot bigint, above_parent_slot bigint, above_parent_hash text, is_end_asked integer not null,
        trouble text, tried_at bigint, wanted_at bigint, filled_at bigint)`.execute(db);
      await sql`create index follow_gaps_by_status on follow_gaps (chain, status)`.execute(db);
      await sql`create table follow_gap_fills (
        gap_id bigint not null, processor text not null, version integer not null,
        slot bigint, blockhash text, is_done integer not null,
        primary key (gap_id, processor, version))`.execute(db);
      const columns = sql`insert into follow_gaps
        (chain, processor, version, from_slot, to_slot, reason, detected_at, status, is_end_asked)`;
      await sql`${columns} select chain, '*', 0, from_slot, to_slot, reason, detected_at, status, 0
        from follow_gaps_before order by id`.execute(db);
      await sql`${columns} select chain, processor, version, from_slot, to_slot, reason, detected_at, status, 0
        from follow_processor_gaps order by from_slot`.execute(db);
      await sql`drop table follow_gaps_before`.execute(db);
      await sql`drop table follow_processor_gaps`.execute(db);
      // Whoever stands behind a gap of the chain has passed over it.
      await sql`insert into follow_gap_fills (gap_id, processor, version, is_done)
        select g.id, c.processor, c.version, 0 from follow_gaps g join follow_cursors c on c.chain = g.chain
        where c.processor <> '*' and c.slot > g.to_slot
          and (g.processor = '*' or (g.processor = c.processor and g.version = c.version))`.execute(db);
      for (const [column, from] of [
        ['above_slot', 'slot'],
        ['above_parent_slot', 'parent_slot'],
        ['above_parent_hash', 'previous_blockhash'],
      ] as const)
        await sql`update follow_gaps set ${sql.ref(column)} = (select h.${sql.ref(from)} from follow_headers h
          where h.chain = follow_gaps.chain and h.slot > follow_gaps.to_slot
            and h.parent_slot <= follow_gaps.to_slot)`.execute(db);
      for (const [column, from] of [
        ['below_slot', 'slot'],
        ['below_hash', 'blockhash'],
      ] as const)
        await sql`update follow_gaps set ${sql.ref(column)} = (select h.${sql.ref(from)} from follow_headers h
          where h.chain = follow_gaps.chain and h.slot = follow_gaps.from_slot - 1)`.execute(db);
    },
  },
  {
    version: 4,
    name: 'gaps that are filled by addresses',
    // An older version would read all blocks of such a gap.
    breaking: true,
    async up({ db }) {
      await sql`alter table follow_gaps add column addresses text`.execute(db);
    },
  },
  {
    version: 5,
    name: 'create leaders',
    // An older version leads without a row, and the cursor still lets only one of two write.
    breaking: false,
    async up({ db }) {
      await sql`create table follow_leaders (
        chain text not null primary key, epoch bigint not null, holder text, beat bigint not null)`.execute(db);
    },
  },
  {
    version: 6,
    name: 'create pending reverts',
    // An older version would apply blocks on top of rows that are still to be reverted.
    breaking: true,
    async up({ db }) {
      await sql`create table follow_pending_reverts (
        chain text not null, processor text not null, version integer not null,
        slot bigint not null, parent_slot bigint not null, blockhash text not null,
        previous_blockhash text not null, block_height bigint, block_time bigint,
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
