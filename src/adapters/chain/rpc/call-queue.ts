import { admits } from '../../../budgets.ts';
import type { Tenant } from '../../../ports/access.ts';

/**
 * Shares the connections of one upstream among tenants. While there is room every call starts at once; otherwise the next free
 * place goes to the tenant with the fewest calls in flight. The last eighth is reserved for tenants below their share, because places held
 * by slow calls are freed only when these are answered.
 */
export interface CallQueue {
  /**
   * Null: the call may start at once. Otherwise it may start when the promise resolves; it rejects with the reason of the signal. Every call
   * that started must `leave`. Throws GateRefusal when too many calls of the tenant wait. No tenant: the daemon itself.
   */
  enter(tenant: Tenant | undefined, signal: AbortSignal): Promise<void> | null;
  leave(tenant: Tenant | undefined): void;
}

/** Calls that may wait for one upstream, over all tenants. Each waits inside a request that is being handled. */
const MAX_WAITING = 1_000;
/** Calls that may wait per tenant: this many times its limit, but at least this number. */
const WAITING_PER_CALL = 4;
const LEAST_WAITING = 64;
const OWN = '';

interface Lane {
  readonly tenant: Tenant | undefined;
  running: number;
  readonly waiting: Set<() => void>;
  /** When it last got a place; breaks ties. */
  servedAt: number;
}

export function createCallQueue(room: number): CallQueue {
  /** Tenants with calls here. */
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
    // Using the reserve requires as much of it to remain free as the tenant holds.
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
    // The number of the daemon's own calls is bounded.
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
        // A tenant without calls is removed: it would reduce the share of the others.
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
