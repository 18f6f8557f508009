import type { BlockProcessor } from '../plugin/plugin.ts';
import type { BlockHeader } from '../ports/block.ts';
import type { Wakeup } from '../runtime/wakeup.ts';
import type { BlockBuffer } from './buffer.ts';
import type { FollowerOptions } from './contract.ts';
import type { Fetcher } from './fetcher.ts';
import type { FollowMeter } from './follow-meter.ts';
import type { FollowState } from './follow-state.ts';
import type { SharedBlocks } from './shared-blocks.ts';
import type { Turn } from './turn.ts';

export interface Run extends FollowerOptions {
  readonly follow: FollowerOptions['core']['follow'];
  readonly signal: AbortSignal;
  readonly state: FollowState;
  readonly buffer: BlockBuffer;
  readonly fetcher: Fetcher;
  readonly shared: SharedBlocks;
  /** Every write of the follower takes its turn: releases, roll-backs, lanes, audits. It begins by clearing up what a lost answer left. */
  readonly turn: Turn;
  readonly meter: FollowMeter;
  /** Of the loop that releases. */
  readonly wake: Wakeup;
  /** Of the loop that looks at the tip. */
  readonly pollWake: Wakeup;
  readonly pluginOf: (processor: string) => string;
  /** Lets a processor that is behind catch up by itself. `fromSlot`: where one begins that has seen nothing. */
  startLane(processor: BlockProcessor, fromSlot?: number): void;
  readonly told: (header: BlockHeader) => void;
}
