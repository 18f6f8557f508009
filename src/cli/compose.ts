import { hostname } from 'node:os';
import { openBus } from '../adapters/bus/open.ts';
import { createYellowstoneStream } from '../adapters/chain/geyser/index.ts';
import { createChainReader, createRpcChainSource, createUpstreamPool } from '../adapters/chain/rpc/index.ts';
import { createSystemClock } from '../adapters/clock.ts';
import { createOutbound } from '../adapters/http/index.ts';
import { createLog, type RootLog } from '../adapters/log.ts';
import { createSystemRandom } from '../adapters/random.ts';
import { openStore } from '../adapters/store/index.ts';
import type { WriteLock } from '../adapters/store/write-lock.ts';
import type { DaemonParts } from '../kernel/assembly/parts.ts';
import type { CoreConfig } from '../kernel/config/core.ts';
import type { BlockStream, ChainId } from '../ports/chain.ts';

/** What the roles of a process share; a daemon that runs all of them in one thread needs nothing of it. */
export interface SharedParts {
  /** Name of the way between the threads. */
  readonly channel: string | null;
  /** Whether to talk to other processes, where the store can carry it. */
  readonly isConnected: boolean;
  /** Of the embedded database. */
  readonly lock: WriteLock | null;
}

const ALONE: SharedParts = { channel: null, isConnected: false, lock: null };

/** The adapters of a real daemon. Its bus has to be closed by the caller. */
export function composeParts(
  core: CoreConfig,
  log: RootLog = createLog(core.log),
  { channel, isConnected, lock }: SharedParts = ALONE,
): DaemonParts {
  const clock = createSystemClock();
  const random = createSystemRandom();
  const shared = { clock, random, log, core };
  return {
    processName: `${hostname()}:${process.pid}`,
    clock,
    random,
    log,
    outbound: createOutbound({ clock, log }),
    setLogLevel: (level) => log.setLevel(level),
    openStore: (config, dataDir) => openStore(config, dataDir, lock ?? undefined),
    bus: openBus({ channel, storeUrl: isConnected ? core.store.url : null, clock, random, log }),
    makePool: (label, upstreams, metrics) => createUpstreamPool({ ...shared, label, upstreams, metrics }),
    makeChain: ({ id, kind }, pool, follower) => ({
      source: createRpcChainSource({ ...shared, chain: id, pool, ...streamOf(id, core, log) }),
      reader: createChainReader({
        ...{ clock, random, chain: id, kind, pool, follower },
        timeoutMs: core.rpc.upstreamTimeoutMs,
        maxBytes: core.rpc.maxUpstreamBytes,
      }),
    }),
  };
}

/** The stream is of the main chain: it has one address. */
function streamOf(chain: ChainId, core: CoreConfig, log: RootLog): { readonly stream?: BlockStream } {
  if (chain !== 'main' || core.follow.stream.plugin === null) return {};
  return { stream: createYellowstoneStream({ core, log }) };
}
