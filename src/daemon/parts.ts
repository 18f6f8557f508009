import type { CoreConfig } from '../config/core.ts';
import type { Validator } from '../http/validation.ts';
import type { JobRunner } from '../jobs/runner.ts';
import type { BlockHeader } from '../ports/block.ts';
import type { ChainId, ChainReader, ChainSource, ChainStatus } from '../ports/chain.ts';
import type { Clock, Random } from '../ports/clock.ts';
import type { ArchiveEngine } from '../ports/ledger.ts';
import type { Outbound } from '../ports/outbound.ts';
import type { ApiPeers, Bus, OpenThreadLine, Owner } from '../ports/processes.ts';
import type { Store } from '../ports/store.ts';
import type { Log, Metrics } from '../ports/telemetry.ts';
import type { UpstreamList, UpstreamPool } from '../ports/upstream.ts';

/** A configured chain. */
export interface ChainSetup {
  readonly id: ChainId;
  readonly kind: ChainStatus['kind'];
  readonly upstreams: UpstreamList;
}

/** The parts of a follower that the chain's reader shows; absent if following is disabled. */
export interface FollowerView {
  status(): Partial<ChainStatus>;
  onReleased(listener: (header: BlockHeader) => void): () => void;
}

/** The parts of the job runner that plugins use. */
export type OutboxParts = Pick<JobRunner, 'enqueue' | 'wake'>;

export interface ChainParts {
  readonly source: ChainSource;
  readonly reader: ChainReader;
}

/** The adapters of a daemon. The kernel imports none; the caller passes them in. */
export interface DaemonParts {
  /** Name of this process for others on the same store: host and process id. */
  readonly processName: string;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly outbound: Outbound;
  /** Connects the other roles, if any; closed by its creator. */
  readonly bus: Bus;
  /** Connects the threads of this process. */
  readonly openThreadLine: OpenThreadLine;
  /** The other processes of the API of this daemon; null: there is one. */
  readonly peers: ApiPeers | null;
  /** Shared by the daemons of one process, so that each schema is compiled once; default: a new one. */
  readonly validator?: Validator;
  /** Changes the minimum level of `log`, for reloads. */
  setLogLevel(level: CoreConfig['log']['level']): void;
  /** Adds the fields that `read` returns to each line of `log`; null: none. */
  setLogContext(read: () => object | null): void;
  /** Opened by the role that runs jobs. */
  openOwner(dataDir: string): Owner | null;
  openStore(config: CoreConfig['store'], dataDir: string): Promise<Store>;
  /** The archive of a chain; absent without one. `owns`: this process may start an engine of its own for it. Opens nothing. */
  archiveEngine?(chain: ChainId, owns: boolean): ArchiveEngine;
  /** Creates a pool; opens nothing before `start`. */
  makePool(label: string, upstreams: UpstreamList, metrics: Metrics): UpstreamPool;
  /** Creates source and reader of a chain on its pool; opens nothing before `start` of the source. */
  makeChain(setup: ChainSetup, pool: UpstreamPool, follower: FollowerView): ChainParts;
}
