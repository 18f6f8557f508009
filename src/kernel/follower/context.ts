import type { ChainId, ChainSource } from '../../ports/chain.ts';
import type { Clock, Random } from '../../ports/clock.ts';
import type { Log } from '../../ports/log.ts';
import type { Store } from '../../ports/store.ts';
import type { CoreConfig } from '../config/core.ts';
import type { FollowerMetrics } from './follower-metrics.ts';

/** What every part of a follower needs. */
export interface FollowContext {
  readonly chain: ChainId;
  readonly source: ChainSource;
  readonly store: Store;
  readonly follow: CoreConfig['follow'];
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly metrics: FollowerMetrics;
  /** Aborts when the follower stops. */
  readonly signal: AbortSignal;
}
