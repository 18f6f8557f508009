import type { Clock, Log, Random, UpstreamPool } from '../../../src/plugin/plugin.ts';
import type { Upstream } from '../../../src/ports/upstream.ts';
import { createLink, type Link, type LinkSubscription } from './link.ts';

export interface LinksParts {
  readonly pool: UpstreamPool;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly pingIntervalMs: number;
  /** How long a subscription may wait for its upstream. */
  readonly subscribeTimeoutMs: number;
  /** Sockets per upstream, and subscriptions per socket. */
  readonly maxSockets: number;
  readonly maxSubscriptions: number;
  /** Whether a subscription may be the cause when a link breaks on which it was unanswered: then the upstream needs no rest. */
  isSuspect(subscription: LinkSubscription): boolean;
  /** Called with what a link that ended had on it, and with the suspects among it. */
  lost(label: string, subscriptions: readonly LinkSubscription[], suspects: readonly LinkSubscription[]): void;
}

export type Placement =
  | { readonly kind: 'link'; readonly link: Link }
  /** All upstreams are resting after a failure; the shortest rest ends then. */
  | { readonly kind: 'rest'; readonly ms: number }
  /** Every socket of every upstream is full. */
  | { readonly kind: 'full' }
  /** No upstream is left that was not ruled out. */
  | { readonly kind: 'none' };

/** The pooled sockets to all upstreams. */
export interface Links {
  /**
   * A link with room, on the best upstream that is not in `refusedBy`. `isSmall`: for a project that holds less than its share, for which
   * one more socket per upstream is kept.
   */
  place(refusedBy: ReadonlySet<string>, isSmall?: boolean): Placement;
  /** A link of its own for one subscription; null when no upstream can be asked now. `lost` tells whether it had opened. */
  probe(lost: (wasOpen: boolean) => void): Link | null;
  size(): number;
  close(): void;
}

const FIRST_REST_MS = 250;
const MAX_REST_MS = 5_000;
/** A link that lived this long was fine. */
const STABLE_MS = 10_000;

interface Rest {
  readonly failures: number;
  readonly until: number;
}

export function createLinks(parts: LinksParts): Links {
  const { pool, clock } = parts;
  const links = new Map<string, Link[]>();
  /** What is wrong with the sockets of an upstream says nothing about its HTTP side, so the pool is not told. */
  const rests = new Map<string, Rest>();
  const probes = new Set<Link>();
  let closing = false;

  function open(upstream: Upstream): Link {
    const { label } = upstream;
    const link = createLink({
      label,
      socket: pool.openSocket(upstream),
      clock,
      pingIntervalMs: parts.pingIntervalMs,
      answerTimeoutMs: parts.subscribeTimeoutMs,
      lost: (subscriptions, openForMs, unanswered) => {
        const left = (links.get(label) ?? []).filter((other) => other !== link);
        if (left.length > 0) links.set(label, left);
        else links.delete(label);
        if (closing) return;
        const suspects = unanswered.filter(parts.isSuspect);
        if (suspects.length > 0) parts.log.warn({ upstream: label }, 'a websocket of the upstream broke over a call');
        else if (subscriptions.length > 0) rest(label, openForMs);
        parts.lost(label, subscriptions, suspects);
      },
    });
    links.set(label, [...(links.get(label) ?? []), link]);
    return link;
  }

  function rest(label: string, openForMs: number): void {
    const failures = openForMs >= STABLE_MS ? 1 : (rests.get(label)?.failures ?? 0) + 1;
    const ms =
      Math.min(MAX_REST_MS, FIRST_REST_MS * 2 ** Math.min(failures - 1, 10)) * (0.5 + parts.random.float() / 2);
    rests.set(label, { failures, until: clock.monotonic() + ms });
    parts.log.warn({ upstream: label, failures, restMs: Math.round(ms) }, 'the websocket of the upstream broke');
  }

  function place(refusedBy: ReadonlySet<string>, isSmall = false): Placement {
    const upstreams = pool.candidates().filter(({ label }) => !refusedBy.has(label));
    if (upstreams.length === 0) return { kind: 'none' };
    let shortestMs = Number.POSITIVE_INFINITY;
    for (const upstream of upstreams) {
      const restMs = (rests.get(upstream.label)?.until ?? 0) - clock.monotonic();
      if (restMs > 0) {
        shortestMs = Math.min(shortestMs, restMs);
        continue;
      }
      const open_ = links.get(upstream.label) ?? [];
      const roomy = open_
        .slice(0, isSmall ? open_.length : parts.maxSockets)
        .find((link) => link.load() < parts.maxSubscriptions);
      if (roomy !== undefined) return { kind: 'link', link: roomy };
      if (open_.length < parts.maxSockets + (isSmall ? 1 : 0)) return { kind: 'link', link: open(upstream) };
    }
    return shortestMs < Number.POSITIVE_INFINITY ? { kind: 'rest', ms: shortestMs } : { kind: 'full' };
  }

  /** Subscriptions leave an upstream that has fallen behind, once there is a better one. */
  const stopWatching = pool.onChange(() => {
    const healthy = new Set(pool.candidates({ healthyOnly: true }).map(({ label }) => label));
    // Another chain is never better than none.
    const out = new Set(pool.states().flatMap(({ otherChain, label }) => (otherChain === null ? [] : [label])));
    for (const [label, open_] of [...links])
      if (out.has(label) || (healthy.size > 0 && !healthy.has(label))) for (const link of open_) link.close();
  });

  function probe(lost: (wasOpen: boolean) => void): Link | null {
    const upstream = pool.candidates().find(({ label }) => (rests.get(label)?.until ?? 0) <= clock.monotonic());
    if (upstream === undefined) return null;
    const link = createLink({
      label: upstream.label,
      socket: pool.openSocket(upstream),
      clock,
      pingIntervalMs: parts.pingIntervalMs,
      answerTimeoutMs: parts.subscribeTimeoutMs,
      lost: (_subscriptions, openForMs) => {
        probes.delete(link);
        lost(openForMs > 0);
      },
    });
    probes.add(link);
    return link;
  }

  return {
    place,
    probe,
    size: () => [...links.values()].reduce((sum, list) => sum + list.length, 0),
    close() {
      closing = true;
      stopWatching();
      for (const link of [...probes, ...[...links.values()].flat()]) link.close();
    },
  };
}
