import { slotsIn } from '../../../src/lib/chain-lag.ts';
import type { ChainReader, Clock, UpstreamPool } from '../../../src/plugin/plugin.ts';

/** Which chain the upstreams answer for. */
export interface ChainIdentity {
  /** Null until known; calling it starts the look-up. */
  current(): Identity | null;
}

export interface Identity {
  readonly genesisHash: string;
  /** Number of observed restarts of a throw-away chain, whose genesis hash can stay the same. */
  readonly life: number;
  readonly isPublic: boolean;
}

const PUBLIC_CLUSTERS: ReadonlySet<string> = new Set([
  '5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d',
  'EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG',
  '4uhcVJyU9pJkvQyS88uRDiswHXSCkY3zQawwpjk2NsNY',
]);
/** A node that only lags is excluded from the pool before it is this far behind. */
const RESTART_MS = 60_000;
/** No cluster has shorter slots; a chain that seals a block per transaction has no slot length. */
const SHORTEST_SLOT_MS = 100;
const ASK_AGAIN_MS = 5_000;
const KEEP_MS = 250;
const ASK_TIMEOUT_MS = 10_000;

export function createChainIdentity(pool: UpstreamPool, reader: ChainReader | null, clock: Clock): ChainIdentity {
  let askedAt = Number.NEGATIVE_INFINITY;
  let life = 0;
  let highestSlot = 0;

  /** A node behind a load balancer may jump back a little; a chain that restarts jumps back to its start. */
  function watchForRestart(): void {
    let best = -1;
    for (const { slot } of pool.states()) if (slot !== null && slot > best) best = slot;
    if (best < 0) return;
    const measured = reader?.status().slotMs ?? null;
    const slotMs = measured === null ? null : Math.max(measured, SHORTEST_SLOT_MS);
    if (best < highestSlot - slotsIn(RESTART_MS, slotMs)) {
      life++;
      highestSlot = best;
    } else if (best > highestSlot) highestSlot = best;
  }

  let kept: Identity | null = null;
  let keptUntil = Number.NEGATIVE_INFINITY;

  return {
    current() {
      // Read for each cacheable call; the slots it depends on change only with health checks.
      if (kept !== null && clock.monotonic() < keptUntil) return kept;
      const genesisHash = reader?.status().genesisHash ?? null;
      if (genesisHash !== null) {
        const isPublic = PUBLIC_CLUSTERS.has(genesisHash);
        if (!isPublic) watchForRestart();
        kept = { genesisHash, life, isPublic };
        keptUntil = clock.monotonic() + KEEP_MS;
        return kept;
      }
      if (clock.monotonic() - askedAt >= ASK_AGAIN_MS) {
        askedAt = clock.monotonic();
        // The status of the reader has the hash from then on.
        void reader?.call('getGenesisHash', [], { timeoutMs: ASK_TIMEOUT_MS }).catch(() => undefined);
      }
      return null;
    },
  };
}
