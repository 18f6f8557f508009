import { admits } from '../../../budgets.ts';
import type { Tenant } from '../../../ports/access.ts';

/**
 * Shares the connections of one upstream among those on whose behalf it is asked. While there is room everybody gets it; else the next
 * place goes to whoever has the fewest calls in flight. The last eighth is kept for those below their share, because places that slow
 * calls hold come back only when these are answered.
 */
export interface CallQueue {
  /**
   * Null: the call may go at once. Else it may when the promise resolves, which rejects with the reason of the signal. Every call that
   * went has to `leave`. Throws GateRefusal when too many calls of the tenant wait already. Absent tenant: the daemon itself.
   */
  enter(tenant: Tenant | undefined, signal: AbortSignal): Promise<void> | null;
  leave(tenant: Tenant | undefined): void;
}

/** Calls that may wait for one upstream, of all tenants together. Each waits inside a request that is being handled. */
const MAX_WAITING = 1_000;
/** And of one tenant: so many times its limit, but this at least. */
const WAITING_PER_CALL = 4;
const LEAST_WAITING = 64;
const OWN = '';

interface Lane {
  readonly tenant: Tenant | undefined;
  running: number;
  readonly waiting: Set<() => void>;
  /** When it was last given a place, for turns among equals. */
  servedAt: number;
}

export function createCallQueue(room: number): CallQueue {
  /** Tenants that have calls here. */
  const lanes = new Map<string, Lane>();
  const reserve = room >= 4 ? Math.max(1, Math.floor(room / 8)) : 0;
  let running = 0;
  let waiting = 0;
  let turns = 0;

  function laneOf(tenant: Tenant | undefined): Lane {
    const id = tenant?.id ?? OWN;
    const known = lanes.get(id);
    if (known !== undefined) return known;
    const made: Lane = { tenant, running: 0, waiting: new Set(), servedAt: 0 };
    lanes.set(id, made);
    return made;
  }

  function mayStart(lane: Lane): boolean {
    const limit = lane.tenant?.limit('upstreamCalls') ?? null;
    if (limit !== null && lane.running >= Math.max(1, limit)) return false;
    const free = room - running;
    if (free > reserve) return true;
    // One that comes into the reserve leaves as much of it as it takes.
    return free > 0 && (reserve === 0 || (lane.running < room / lanes.size && lane.running < free));
  }

  function start(lane: Lane): void {
    running += 1;
    lane.running += 1;
    turns += 1;
    lane.servedAt = turns;
    lane.tenant?.count('upstreamCalls', 1);
  }

  function serve(): void {
    while (waiting > 0) {
      let next: Lane | null = null;
      for (const lane of lanes.values()) {
        if (lane.waiting.size === 0 || !mayStart(lane)) continue;
        const isBefore =
          next === null ||
          lane.running < next.running ||
          (lane.running === next.running && lane.servedAt < next.servedAt);
        if (isBefore) next = lane;
      }
      if (next === null) return;
      const [go] = next.waiting;
      start(next);
      go?.();
    }
  }

  function demandPlace({ tenant, waiting: own }: Lane): void {
    // Of the daemon's own calls there are only so many.
    if (tenant === undefined) return;
    const limit = tenant.limit('upstreamCalls');
    const isOver = limit !== null && own.size >= Math.max(LEAST_WAITING, WAITING_PER_CALL * limit);
    const holders = [...lanes.values()].filter((lane) => lane.waiting.size > 0).length;
    if (isOver || !admits({ room: MAX_WAITING, used: waiting, holders }, own.size, 1))
      throw tenant.refusal('upstreamCalls');
  }

  function forget(lane: Lane): void {
    if (lane.running === 0 && lane.waiting.size === 0) lanes.delete(lane.tenant?.id ?? OWN);
  }

  function wait(lane: Lane, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const end = () => {
        lane.waiting.delete(go);
        waiting -= 1;
        signal.removeEventListener('abort', onAbort);
      };
      const go = () => {
        end();
        resolve();
      };
      const onAbort = () => {
        end();
        forget(lane);
        reject(signal.reason as Error);
      };
      lane.waiting.add(go);
      waiting += 1;
      signal.addEventListener('abort', onAbort, { once: true });
    });
  }

  return {
    enter(tenant, signal) {
      const lane = laneOf(tenant);
      if (lane.waiting.size === 0 && mayStart(lane)) {
        start(lane);
        return null;
      }
      try {
        demandPlace(lane);
      } catch (error) {
        // One that holds nothing is no tenant here: it would make the share of the others smaller.
        forget(lane);
        throw error;
      }
      if (signal.aborted) {
        forget(lane);
        return Promise.reject(signal.reason as Error);
      }
      return wait(lane, signal);
    },
    leave(tenant) {
      const lane = laneOf(tenant);
      running -= 1;
      lane.running -= 1;
      lane.tenant?.count('upstreamCalls', -1);
      forget(lane);
      serve();
    },
  };
}
