import type { CoreConfig } from '../config/core.ts';
import type { BlockProcessor } from '../plugin/plugin.ts';
import type { BlockHeader } from '../ports/block.ts';
import type { ChainId, ChainSource, ChainStatus } from '../ports/chain.ts';
import type { Clock, Random } from '../ports/clock.ts';
import type { Log } from '../ports/log.ts';
import type { Metrics } from '../ports/metrics.ts';
import type { Store } from '../ports/store.ts';

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

/** What the follower adds to the status of its chain. */
export type FollowerStatus = Pick<
  ChainStatus,
  'tipSlot' | 'cursorSlot' | 'finalizedSlot' | 'lagSlots' | 'slotMs' | 'stalled' | 'openGaps' | 'gaps' | 'leftBehind'
>;

export interface Follower {
  /** Begins in the background; an upstream that does not answer is waited for. */
  start(): Promise<void>;
  /** The block in work is finished, no further one is begun. */
  drain(): Promise<void>;
  /** Ends everything and waits for it. */
  stop(): Promise<void>;
  status(): FollowerStatus;
  /** Calls `listener` after each commit of a block. The returned function stops it. */
  onReleased(listener: (header: BlockHeader) => void): () => void;
}
