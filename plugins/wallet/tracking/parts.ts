import type { ChainReader, Clock, Store } from '../../../src/plugin/plugin.ts';
import type { Commitment } from '../../../src/ports/chain.ts';
import type { WalletConfig } from '../config.ts';
import type { WalletAdmission } from './admission.ts';
import type { ChainHistory } from './chain-history.ts';
import type { Schedule } from './upkeep.ts';

/** Sources of wallet histories. */
export interface TrackerParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly chain: ChainReader;
  readonly upstream: ChainHistory;
  readonly schedule: Schedule;
  /** Null: every address may be indexed. */
  readonly admission: WalletAdmission | null;
  readonly commitment: Commitment;
  readonly config: Pick<WalletConfig, 'readThroughMs'>;
  readonly cacheBytes: number;
}
