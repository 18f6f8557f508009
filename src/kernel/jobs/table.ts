import type { Queries } from '../../ports/store.ts';
import type { JobState } from '../plugin.ts';

/** One row of `outbox`. Times are unix milliseconds. */
export interface OutboxTable {
  id: number;
  kind: string;
  key: string;
  /** The group; `group` is a word of SQL. */
  grp: string;
  payload: string;
  slot: number | null;
  position: number | null;
  state: JobState;
  /** 0 = first attempt and first retry, 1 = later ones, and the only one of a job that was requeued for one. */
  lane: number;
  attempts: number;
  /** How often it was claimed; also the token that a claim's outcome has to show. */
  claims: number;
  /** Claims that ended without an outcome: their process died. */
  lost: number;
  run_at: number;
  lease_until: number | null;
  created_at: number;
  finished_at: number | null;
  error: string | null;
}

export interface JobTables {
  outbox: OutboxTable;
}

/** Finished attempts up to which a job is in the fast lane. */
const FAST_LANE_ATTEMPTS = 1;

/** In this lane and without an attempt behind it: requeued for a single one. */
export const ONCE_LANE = 1;

export function laneOf(attempts: number): 0 | 1 {
  return attempts <= FAST_LANE_ATTEMPTS ? 0 : 1;
}

export function jobTables(db: Queries): Queries<JobTables> {
  return db as Queries<JobTables>;
}
