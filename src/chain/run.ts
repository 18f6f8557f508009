import type { CoreConfig } from '../config/core.ts';
import type { Ledger } from '../ledger/index.ts';
import { messageOf } from '../lib/coded-error.ts';
import type { BlockListener } from '../plugin/host.ts';
import type { BlockProcessor } from '../plugin/plugin.ts';
import type { BlockHeader } from '../ports/block.ts';
import type { ChainId, ChainSource } from '../ports/chain.ts';
import type { Clock, Random } from '../ports/clock.ts';
import type { Store } from '../ports/store.ts';
import type { Log, Metrics } from '../ports/telemetry.ts';
import type { Wakeup } from '../runtime/waiting.ts';
import type { BlockBuffer, Fetcher, KeptFirst, SharedBlocks } from './fetch.ts';
import type { FollowMeter, FollowState } from './state.ts';

export interface FollowerOptions {
  readonly chain: ChainId;
  readonly source: ChainSource;
  readonly store: Store;
  /** Processors of other chains are ignored. */
  readonly processors: readonly BlockProcessor[];
  readonly listeners?: readonly BlockListener[];
  /** Id of the plugin that a processor, by its name, is of; default its name. */
  readonly pluginOf?: (processor: string) => string;
  readonly core: CoreConfig;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  /** Scope of one chain. */
  readonly metrics: Metrics;
  /** Whether the chain makes blocks only for transactions; default false. */
  readonly isOnDemand?: boolean;
  /** Opens the ledger of the chain; absent when it is off. */
  readonly openLedger?: () => Promise<Ledger>;
  /** Traces the release of each block; default: none. */
  readonly traceBlock?: TraceBlock;
  /** Ends the daemon: FOLLOW_FENCED, LEDGER_IO, STORE_IO, STORE_FULL, STORE_READ_ONLY, STORE_CORRUPT. */
  readonly fatal: (error: unknown) => void;
}

/** Runs `work`; what it throws goes to `failed`. */
export type TraceBlock = <T>(slot: number, work: () => Promise<T>, failed: (error: unknown) => T) => Promise<T>;

export interface Run extends FollowerOptions {
  readonly source: ChainSource & KeptFirst;
  readonly traceBlock: TraceBlock;
  readonly follow: FollowerOptions['core']['follow'];
  readonly signal: AbortSignal;
  readonly state: FollowState;
  readonly buffer: BlockBuffer;
  readonly fetcher: Fetcher;
  readonly shared: SharedBlocks;
  /** Runs the writes of the follower (releases, roll-backs, lanes, audits) one at a time, each after `verifyCommit`. */
  readonly exclusive: <T>(work: () => Promise<T>) => Promise<T>;
  readonly meter: FollowMeter;
  /** Wakes the loop that releases blocks. */
  readonly wake: Wakeup;
  /** Wakes the loop that polls the tip. */
  readonly pollWake: Wakeup;
  readonly pluginOf: (processor: string) => string;
  /** Lets a processor that is behind catch up by itself. `fromSlot`: where one begins that has seen nothing. */
  startLane(processor: BlockProcessor, fromSlot?: number): void;
  readonly onReleased: (header: BlockHeader) => void;
}

export interface ReleaseListeners {
  /** The returned function removes the listener. */
  add(listener: (header: BlockHeader) => void): () => void;
  /** Calls all listeners; one that throws is logged and does not keep the others from being called. */
  call(header: BlockHeader): void;
}

export function createReleaseListeners(log: Log): ReleaseListeners {
  const listeners = new Set<(header: BlockHeader) => void>();
  return {
    add(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    call(header) {
      for (const listener of listeners) {
        try {
          listener(header);
        } catch (error) {
          log.error({ error: messageOf(error), slot: header.slot }, 'a listener for released blocks threw');
        }
      }
    },
  };
}

/** Calls the listeners in this thread; one that throws is logged and does not keep the others from being called. */
export function tellListeners(
  { listeners, log }: Pick<Run, 'listeners' | 'log'>,
  tell: (listener: BlockListener) => void,
): void {
  for (const listener of listeners ?? []) {
    try {
      tell(listener);
    } catch (error) {
      log.error({ error: messageOf(error) }, 'a listener for blocks threw');
    }
  }
}
