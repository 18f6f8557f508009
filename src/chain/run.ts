import type { CoreConfig } from '../config/core.ts';
import type { BlockProcessor } from '../plugin/plugin.ts';
import type { BlockHeader } from '../ports/block.ts';
import type { ChainId, ChainSource } from '../ports/chain.ts';
import type { Clock, Random } from '../ports/clock.ts';
import type { Log } from '../ports/log.ts';
import type { Metrics } from '../ports/metrics.ts';
import type { Store } from '../ports/store.ts';
import type { Wakeup } from '../runtime/wakeup.ts';
import type { BlockBuffer, Fetcher, SharedBlocks } from './fetch.ts';
import type { FollowMeter, FollowState } from './state.ts';

export interface FollowerOptions {
  readonly chain: ChainId;
  readonly source: ChainSource;
  readonly store: Store;
  /** Those that are not for this chain are left out. */
  readonly processors: readonly BlockProcessor[];
  /** Id of the plugin that a processor, by its name, is of; default its name. */
  readonly pluginOf?: (processor: string) => string;
  readonly core: CoreConfig;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  /** Scope of one chain. */
  readonly metrics: Metrics;
  /** Ends the daemon: FOLLOW_FENCED, STORE_IO, STORE_FULL, STORE_READ_ONLY, STORE_CORRUPT. */
  readonly fatal: (error: unknown) => void;
}

export interface Run extends FollowerOptions {
  readonly follow: FollowerOptions['core']['follow'];
  readonly signal: AbortSignal;
  readonly state: FollowState;
  readonly buffer: BlockBuffer;
  readonly fetcher: Fetcher;
  readonly shared: SharedBlocks;
  /** Every write of the follower takes its turn: releases, roll-backs, lanes, audits. It begins by clearing up what a lost answer left. */
  readonly exclusive: <T>(work: () => Promise<T>) => Promise<T>;
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
