import type { ChainReader, Clock, Store } from '../../../src/kernel/plugin.ts';
import type { Commitment } from '../../../src/ports/chain.ts';
import type { Schedule } from './schedule.ts';
import type { WalletUpstream } from './upstream.ts';

/** What histories of wallets are read from. */
export interface TrackerParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly chain: ChainReader;
  readonly upstream: WalletUpstream;
  readonly schedule: Schedule;
  readonly commitment: Commitment;
  readonly readThroughMs: number;
  readonly cacheBytes: number;
}
