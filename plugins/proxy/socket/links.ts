import type { Clock, Log, Random, UpstreamPool } from '../../../src/plugin/plugin.ts';
import type { Upstream } from '../../../src/ports/upstream.ts';
import { backoffMs } from '../../../src/runtime/waiting.ts';
import type { ProxyConfig } from '../config.ts';
import { createLink, type LinkSubscription, type UpstreamLink } from './link.ts';

export interface LinksParts {
  readonly pool: UpstreamPool;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  /** Read at each use. */
  readonly limits: Pick<
    ProxyConfig['websocket'],
    'deduplicate' | 'pingIntervalMs' | 'subscribeTimeoutMs' | 'upstreamSockets' | 'upstreamSubscriptions'
  >;
  /** Whether a subscription that was unanswered on a broken link may be the cause: the upstream then needs no cool-down. */
  isSuspect(subscription: LinkSubscription): boolean;
  /** Called with the subscriptions of a link that ended, and the suspects among them. */
  lost(label: string, subscriptions: readonly LinkSubscription[], suspects: readonly LinkSubscription[]): void;
}

export type LinkPlacement =
  | { readonly kind: 'link'; readonly link: UpstreamLink }
  /** All upstreams are cooling down; the shortest cool-down ends after `ms`. */
  | { readonly kind: 'rest'; readonly ms: number }
  /** Every socket of every upstream is full. */
  | { readonly kind: 'full' }
  /** Every upstream was ruled out. */
  | { readonly kind: 'none' };

/** The pooled sockets to all upstreams. */
export interface Links {
  /**
   * A link with room, on the best upstream that is not in `refusedBy`. `isSmall`: for a project below its fair share; one more socket
   * per upstream is reserved for those.
   */
  place(refusedBy: ReadonlySet<string>, isSmall?: boolean): LinkPlacement;
  /** A separate link for one subscription; null when no upstream is available. `lost` receives whether it had opened. */
  probe(lost: (wasOpen: boolean) => void): UpstreamLink | null;
  size(): number;
  close(): void;
}

const REST_BACKOFF = { longestMs: 5_000 };
/** A link that lived this long was healthy. */
const STABLE_MS = 10_000;

interface UpstreamPause {
  readonly failures: number;
  readonly until: number;
}

export function createLinks(parts: LinksParts): Links {
  const { pool, clock } = parts;
  const links = new Map<string, UpstreamLink[]>();
  /** Failing sockets of an upstream say nothing about its HTTP side, so they are not reported to the pool. */
  const rests = new Map<string, UpstreamPause>();
  const probes = new Set<UpstreamLink>();
  let closing = false;

  function open(upstream: Upstream): UpstreamLink {
    const { label } = upstream;
    const link = createLink({
      label,
      socket: pool.openSocket(upstream),
      clock,
      limits: parts.limits,
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
    const ms = backoffMs(failures, parts.random, REST_BACKOFF);
    rests.set(label, { failures, until: clock.monotonic() + ms });
    parts.log.warn({ upstream: label, failures, restMs: Math.round(ms) }, 'the websocket of the upstream broke');
  }

  function place(refusedBy: ReadonlySet<string>, isSmall = false): LinkPlacement {
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
        .slice(0, isSmall ? open_.length : parts.limits.upstreamSockets)
        .find((link) => link.load() < parts.limits.upstreamSubscriptions);
      if (roomy !== undefined) return { kind: 'link', link: roomy };
      if (open_.length < parts.limits.upstreamSockets + (isSmall ? 1 : 0))
        return { kind: 'link', link: open(upstream) };
    }
    return shortestMs < Number.POSITIVE_INFINITY ? { kind: 'rest', ms: shortestMs } : { kind: 'full' };
  }

  /** Subscriptions leave an upstream that has fallen behind when a better one exists. */
  const stopWatching = pool.onChange(() => {
    const healthy = new Set(pool.candidates({ healthyOnly: true }).map(({ label }) => label));
    // Another chain is never better than no upstream.
    const out = new Set(pool.states().flatMap(({ otherChain, label }) => (otherChain === null ? [] : [label])));
    for (const [label, open_] of [...links])
      if (out.has(label) || (healthy.size > 0 && !healthy.has(label))) for (const link of open_) link.close();
  });

  function probe(lost: (wasOpen: boolean) => void): UpstreamLink | null {
    const upstream = pool.candidates().find(({ label }) => (rests.get(label)?.until ?? 0) <= clock.monotonic());
    if (upstream === undefined) return null;
    const link = createLink({
      label: upstream.label,
      socket: pool.openSocket(upstream),
      clock,
      limits: parts.limits,
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
