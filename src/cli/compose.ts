import { createChainReader, createRpcChainSource, createUpstreamPool } from '../adapters/chain/rpc/index.ts';
import { createSystemClock } from '../adapters/clock.ts';
import { createOutbound } from '../adapters/http/index.ts';
import { createLog, type RootLog } from '../adapters/log.ts';
import { createSystemRandom } from '../adapters/random.ts';
import { openStore } from '../adapters/store/index.ts';
import type { DaemonParts } from '../kernel/assembly/parts.ts';
import type { CoreConfig } from '../kernel/config/core.ts';

/** The adapters of a real daemon. */
export function composeParts(core: CoreConfig, log: RootLog = createLog(core.log)): DaemonParts {
  const clock = createSystemClock();
  const random = createSystemRandom();
  const shared = { clock, random, log, core };
  return {
    clock,
    random,
    log,
    outbound: createOutbound({ clock, log }),
    setLogLevel: (level) => log.setLevel(level),
    openStore,
    makePool: (label, upstreams, metrics) => createUpstreamPool({ ...shared, label, upstreams, metrics }),
    makeChain: ({ id, kind }, pool, follower) => ({
      source: createRpcChainSource({ ...shared, chain: id, pool }),
      reader: createChainReader({
        ...{ clock, random, chain: id, kind, pool, follower },
        timeoutMs: core.rpc.upstreamTimeoutMs,
        maxBytes: core.rpc.maxUpstreamBytes,
      }),
    }),
  };
}
