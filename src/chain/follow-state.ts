import { slotsIn } from '../lib/chain-lag.ts';
import { createSlotLength, type SlotLength } from '../lib/slot-length.ts';
import type { BlockProcessor } from '../plugin/plugin.ts';
import type { ChainGap } from '../ports/gaps.ts';
import type { Position } from './decide.ts';

/** A write of the chain's own cursor whose answer was lost: it may have been committed or not. */
export interface Doubt {
  readonly to: Position | null;
  /** Takes over in memory what the write did; may be called again when it threw. */
  readonly adopt: () => Promise<void> | void;
}

/** Where a processor that catches up stands. */
export interface Lane {
  /** Null until it is known. */
  slot: number | null;
  /** Monotonic ms of its last block, or of its start. */
  movedAt: number;
}

/** Whom a pushed block came from. */
export const STREAM = 'stream';

/** What is known of the pushed blocks. Times are monotonic ms. */
export interface StreamState {
  /** Its blocks continue the chain: polling only looks at the tip. */
  leads: boolean;
  lastBlockAt: number;
}

/** What a follower knows while it runs; everything that must outlive it is in the store. Times are monotonic ms. */
export interface FollowState {
  cursor: Position | null;
  floor: number;
  finalizedSlot: number | null;
  tip: number | null;
  readonly slotLength: SlotLength;
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
  /** The slot whose block was fetched again because a processor could not take it. */
  fetchedAgain: number | null;
  /** Up to where the blocks were said to be pruned, before that is asked for a second time. */
  prunedTo: number | null;
  /** What a processor does wrong for which the chain waits, in words. */
  processorFault: string | null;
  /** Those that fail and that the chain does not wait for, with the reason, by their names. */
  readonly leftBehind: Map<string, string>;
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
  /** Where they stand, by their names. */
  readonly lanes: Map<string, Lane>;
}

export const newState = (now: number): FollowState => ({
  cursor: null,
  floor: 0,
  finalizedSlot: null,
  tip: null,
  slotLength: createSlotLength(),
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
  fetchedAgain: null,
  prunedTo: null,
  processorFault: null,
  leftBehind: new Map(),
  failures: 0,
  notBefore: now,
  live: [],
  joining: [],
  catchingUp: [],
  stuck: [],
  laneTrouble: new Map(),
  lanes: new Map(),
});

/** Silence after which the tip counts as unknown. */
const SILENT_MS = 5_000;

/** Slots behind the tip. While no upstream tells it, the tip moves on as the chain does. */
export function lagOf({ tip, cursor, lastAnswerAt, slotLength }: FollowState, now: number): number {
  if (tip === null || cursor === null) return 0;
  const silentMs = now - lastAnswerAt;
  const unseen = silentMs < SILENT_MS ? 0 : slotsIn(silentMs, slotLength.ms());
  return Math.max(0, tip + unseen - cursor.slot);
}
