import type { ChainGap } from '../../ports/gaps.ts';
import type { BlockProcessor } from '../plugin.ts';
import type { Position } from './decide.ts';
import type { StreamState } from './stream-state.ts';

/** A write of the chain's own cursor whose answer was lost: it may have been committed or not. */
export interface Doubt {
  readonly to: Position | null;
  /** Takes over in memory what the write did; may be called again when it threw. */
  readonly adopt: () => Promise<void> | void;
}

/** What a follower knows while it runs; everything that must outlive it is in the store. Times are monotonic ms. */
export interface FollowState {
  cursor: Position | null;
  /** Block time of the cursor, unix seconds; null when the chain gave none. */
  cursorTime: number | null;
  floor: number;
  finalizedSlot: number | null;
  tip: number | null;
  openGaps: number;
  /** Slots of the open gaps that are still missing. */
  gapSlots: number;
  /** The oldest open gaps. */
  gaps: readonly ChainGap[];
  /** Where listing may begin: nothing below can be had. */
  listFrom: number;
  /** Slots up to here were listed since the last roll-back. */
  listedTo: number;
  /** The block that is missing, and since when. */
  hole: { readonly slot: number; readonly since: number; denied: boolean } | null;
  /** Set while it is not known whether the last move of the cursor was committed. */
  doubt: Doubt | null;
  /** Why the last attempt failed or has to wait; null while things go well. */
  trouble: string | null;
  /** What the finality audit found wrong and could not heal yet. */
  mismatch: string | null;
  /** Set for good: only an operator gets it going again. */
  halted: string | null;
  /** Null while no stream of blocks is configured or open. */
  stream: StreamState | null;
  /** Whether the standstill of now was told already. */
  stallTold: boolean;
  begun: boolean;
  draining: boolean;
  lastReleaseAt: number;
  lastAnswerAt: number;
  failures: number;
  notBefore: number;
  /** At the cursor. */
  live: readonly BlockProcessor[];
  /** Without a cursor of their own; they begin with the next block. */
  joining: readonly BlockProcessor[];
  /** On their way to the cursor. */
  catchingUp: readonly BlockProcessor[];
  /** Processors that cannot go on, with the reason. */
  stuck: readonly string[];
  /** Why one that catches up does not get on, by its name. */
  readonly laneTrouble: Map<string, string>;
}

export const newState = (now: number): FollowState => ({
  cursor: null,
  cursorTime: null,
  floor: 0,
  finalizedSlot: null,
  tip: null,
  openGaps: 0,
  gapSlots: 0,
  gaps: [],
  listFrom: 0,
  listedTo: -1,
  hole: null,
  doubt: null,
  trouble: null,
  mismatch: null,
  halted: null,
  stream: null,
  stallTold: false,
  begun: false,
  draining: false,
  lastReleaseAt: now,
  lastAnswerAt: now,
  failures: 0,
  notBefore: now,
  live: [],
  joining: [],
  catchingUp: [],
  stuck: [],
  laneTrouble: new Map(),
});
