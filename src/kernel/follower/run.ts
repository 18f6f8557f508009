import type { BlockHeader } from '../../ports/block.ts';
import type { BlockProcessor } from '../plugin.ts';
import type { BlockBuffer } from './buffer.ts';
import type { FollowerOptions } from './contract.ts';
import type { Position } from './decide.ts';
import type { Fetcher } from './fetcher.ts';
import type { FollowMeter } from './follow-meter.ts';
import type { Turn } from './turn.ts';
import type { Wake } from './wake.ts';

/** What a follower knows while it runs; everything that must outlive it is in the store. Times are monotonic ms. */
export interface FollowState {
  cursor: Position | null;
  floor: number;
  finalizedSlot: number | null;
  tip: number | null;
  openGaps: number;
  /** Where listing may begin: nothing below can be had. */
  listFrom: number;
  /** Slots up to here were listed since the last roll-back. */
  listedTo: number;
  /** The block that is missing, and since when. */
  hole: { readonly slot: number; readonly since: number; denied: boolean } | null;
  /** Why the last attempt failed or has to wait; null while things go well. */
  trouble: string | null;
  /** Set for good: only an operator gets it going again. */
  halted: string | null;
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
}

export interface Run extends FollowerOptions {
  readonly follow: FollowerOptions['core']['follow'];
  readonly signal: AbortSignal;
  readonly state: FollowState;
  readonly buffer: BlockBuffer;
  readonly fetcher: Fetcher;
  /** Every write of the follower takes its turn: releases, roll-backs, lanes, audits. */
  readonly turn: Turn;
  readonly meter: FollowMeter;
  /** Of the loop that releases. */
  readonly wake: Wake;
  /** Of the loop that looks at the tip. */
  readonly pollWake: Wake;
  readonly told: (header: BlockHeader) => void;
}

export const newState = (now: number): FollowState => ({
  cursor: null,
  floor: 0,
  finalizedSlot: null,
  tip: null,
  openGaps: 0,
  listFrom: 0,
  listedTo: -1,
  hole: null,
  trouble: null,
  halted: null,
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
});
