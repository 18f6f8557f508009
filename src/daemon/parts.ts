import type { CoreConfig } from '../config/core.ts';
import type { Validator } from '../http/validation.ts';
import type { JobRunner } from '../jobs/runner.ts';
import type { BlockHeader } from '../ports/block.ts';
import type { Bus } from '../ports/bus.ts';
import type { ChainId, ChainReader, ChainSource, ChainStatus } from '../ports/chain.ts';
import type { Clock, Random } from '../ports/clock.ts';
import type { Log } from '../ports/log.ts';
import type { Metrics } from '../ports/metrics.ts';
import type { Outbound } from '../ports/outbound.ts';
import type { Owner } from '../ports/owner.ts';
import type { Store } from '../ports/store.ts';
import type { UpstreamConfig, UpstreamPool } from '../ports/upstream.ts';

/** A chain as the configuration has it. */
export interface ChainSetup {
  readonly id: ChainId;
  readonly kind: ChainStatus['kind'];
  readonly upstreams: readonly UpstreamConfig[];
}

/** What the reader of a chain shows of its follower; there is none while following is switched off. */
export interface FollowerView {
  status(): Partial<ChainStatus>;
  onReleased(listener: (header: BlockHeader) => void): () => void;
}

/** The parts of the job runner that plugins reach. */
export type OutboxParts = Pick<JobRunner, 'enqueue' | 'wake'>;

export interface ChainParts {
  readonly source: ChainSource;
  readonly reader: ChainReader;
}

/** The outside world of a daemon. The kernel imports no adapter: whoever composes a daemon hands them in. */
export interface DaemonParts {
  /** How this process is shown to others on the same store: host and number. */
  readonly processName: string;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly outbound: Outbound;
  /** To the other roles, where there are any; closed by whoever made it. */
  readonly bus: Bus;
  /** Shared by daemons of one process, so that each schema is compiled once; default one of its own. */
  readonly validator?: Validator;
  /** Changes the least level of `log`; a reload may ask for it. */
  setLogLevel(level: CoreConfig['log']['level']): void;
  /** Opened by the role that runs jobs. */
  openOwner(dataDir: string): Owner | null;
  openStore(config: CoreConfig['store'], dataDir: string): Promise<Store>;
  /** Makes a pool; opens nothing before `start`. */
  makePool(label: string, upstreams: readonly UpstreamConfig[], metrics: Metrics): UpstreamPool;
  /** Makes source and reader of a chain over its pool; opens nothing before the source's `start`. */
  makeChain(setup: ChainSetup, pool: UpstreamPool, follower: FollowerView): ChainParts;
}
