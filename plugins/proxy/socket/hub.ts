import type { JsonMember } from '../../../src/lib/json.ts';
import {
  type Clock,
  type Log,
  type Metrics,
  type Random,
  RpcError,
  type UpstreamPool,
} from '../../../src/plugin/plugin.ts';
import type { Upstream } from '../../../src/ports/upstream.ts';
import { backoffMs } from '../../../src/runtime/waiting.ts';
import {
  isFinalAnswer,
  isMoreUseful,
  meaningOfErrorText,
  type NodeErrorMeaning,
} from '../../../src/solana/node-errors.ts';
import type { ProxyConfig } from '../config.ts';
import {
  createLink,
  isReceivedNotice,
  type LinkSubscription,
  type SubscriptionCall,
  type UpstreamLink,
} from './link.ts';
import { createRepeats, type Repeats } from './repeats.ts';

/** One client's interest in a subscription. */
export interface Subscriber {
  accepted(): void;
  /** `errorText`: the upstream's error object, raw. The last call. */
  refused(reason: { readonly errorText: string } | { readonly error: RpcError }): void;
  /** `at`: position of the upstream's subscription id. `last`: the last call. */
  notified(bytes: Buffer, at: Pick<JsonMember, 'start' | 'end'>, last: boolean): void;
  /** It cannot go on; without a reason no upstream carries it any more. The last call. */
  lost(close?: { readonly code: number; readonly reason: string }): void;
}

/** Shares identical subscriptions of all clients and keeps them alive across upstreams. */
export interface SubscriptionHub {
  /** Calls back synchronously or later. The returned function unsubscribes. `owner`: name of its project. */
  subscribe(call: SubscriptionCall, subscriber: Subscriber, owner?: string): () => void;
  close(): void;
}

export interface HubParts extends Omit<LinksParts, 'lost' | 'isSuspect'> {
  readonly metrics: Metrics;
}

interface SharedSubscription {
  readonly key: string;
  readonly placed: LinkSubscription;
  readonly subscribers: Set<Subscriber>;
  /** Whether an upstream ever accepted it: from then on its clients have their ids. */
  accepted: boolean;
  /** It was unanswered on a link that broke, or its owner's subscriptions broke one: it is tried in isolation. */
  inQuarantine: boolean;
  /** An upstream accepted it in isolation. */
  cleared: boolean;
  leaveQuarantine: () => void;
  link: UpstreamLink | null;
  readonly refusedBy: Set<string>;
  /** The most useful refusal of upstreams, before any accepted it. */
  refusal: Refusal | null;
  /** What it has told; filled with `deduplicate` only. */
  readonly repeats: Repeats;
  cancelTimeout: () => void;
}

interface Refusal {
  readonly meaning: NodeErrorMeaning;
  readonly errorText: string;
}

export function createSubscriptionHub(parts: HubParts): SubscriptionHub {
  const { clock } = parts;
  const all = new Map<string, SharedSubscription>();
  const byPlaced = new Map<LinkSubscription, SharedSubscription>();
  /** Number of subscriptions at upstreams, by the owner that asked first. */
  const owned = new Map<string, number>();
  const links = createLinks({ ...parts, lost: onLost, isSuspect: (placed) => !isProven(byPlaced.get(placed)) });
  const quarantine = createQuarantine({ clock, openProbe: links.probe });
  const repeated = parts.metrics.counter(
    'repeated_notifications_total',
    'notifications of upstreams that proxy.websocket.deduplicate left out',
  );
  let cancelRetry = () => {};
  let retrying = false;
  const stopWatching = parts.pool.onChange(() => {
    if (retrying) retry();
  });
  parts.metrics.observe('upstream_subscriptions', 'distinct subscriptions held at upstreams', () => all.size);
  parts.metrics.observe('upstream_sockets', 'websockets to upstreams', () => links.size());

  function create(key: string, call: SubscriptionCall, owner: string): SharedSubscription {
    const shared: SharedSubscription = {
      key,
      placed: {
        family: call.family,
        method: call.method,
        paramsText: call.paramsText,
        owner,
        accepted: () => onAccepted(shared),
        refused: (errorText) => onRefused(shared, errorText),
        notified: (bytes, at) => onNotified(shared, bytes, at),
        unanswered: () => onUnanswered(shared),
      },
      subscribers: new Set(),
      accepted: false,
      inQuarantine: false,
      cleared: false,
      leaveQuarantine: () => {},
      link: null,
      refusedBy: new Set(),
      refusal: null,
      repeats: createRepeats(),
      cancelTimeout: () => {},
    };
    shared.cancelTimeout = clock.timeout(parts.limits.subscribeTimeoutMs, () => {
      if (!shared.accepted) refuse(shared, new RpcError('timeout'));
    });
    all.set(key, shared);
    byPlaced.set(shared.placed, shared);
    owned.set(owner, (owned.get(owner) ?? 0) + 1);
    return shared;
  }

  /** A subscription that an upstream accepted once cannot be the cause of a closed connection. A removed one proves nothing. */
  function isProven(shared: SharedSubscription | undefined): boolean {
    return shared !== undefined && (shared.accepted || shared.cleared);
  }

  function isolate(shared: SharedSubscription): void {
    if (shared.inQuarantine) return;
    shared.inQuarantine = true;
    const { family, method, paramsText, owner } = shared.placed;
    const leave = () => {
      shared.inQuarantine = false;
    };
    shared.leaveQuarantine = quarantine.add({
      family,
      method,
      paramsText,
      owner,
      cleared: () => {
        leave();
        shared.cleared = true;
        place(shared);
      },
      refused: (errorText) => {
        leave();
        // What is answered closes no connection.
        shared.cleared = true;
        onRefused(shared, errorText);
      },
      condemned: () => {
        leave();
        const details = 'the upstream closed the connection over this subscription';
        end(shared, (subscriber) => subscriber.refused({ error: new RpcError('invalidParams', { details }) }));
      },
    });
  }

  function place(shared: SharedSubscription): void {
    const { owner } = shared.placed;
    if (!isProven(shared) && quarantine.distrusts(owner)) {
      isolate(shared);
      return;
    }
    const isSmall = (owned.get(owner) ?? 0) <= all.size / Math.max(1, owned.size);
    const placement = links.place(shared.refusedBy, isSmall);
    if (placement.kind === 'link') {
      shared.link = placement.link;
      placement.link.subscribe(shared.placed);
    } else if (shared.accepted && placement.kind === 'none') {
      end(shared, (subscriber) => subscriber.lost());
    } else if (shared.accepted || placement.kind === 'rest') {
      retryIn(placement.kind === 'rest' ? placement.ms : parts.limits.subscribeTimeoutMs);
    } else {
      const details = placement.kind === 'full' ? 'no room for more subscriptions' : undefined;
      refuse(shared, new RpcError('unavailable', details === undefined ? {} : { details }));
    }
  }

  /** Ends one that no upstream accepted, with the most useful refusal of an upstream; `error`: if there is none. */
  function refuse(shared: SharedSubscription, error: RpcError): void {
    const { refusal } = shared;
    end(shared, (subscriber) => subscriber.refused(refusal === null ? { error } : { errorText: refusal.errorText }));
  }

  function retryIn(ms: number): void {
    if (retrying) return;
    retrying = true;
    cancelRetry = clock.timeout(Math.ceil(ms), retry);
  }

  function retry(): void {
    cancelRetry();
    retrying = false;
    for (const shared of [...all.values()]) if (shared.link === null && !shared.inQuarantine) place(shared);
  }

  function onAccepted(shared: SharedSubscription): void {
    shared.cancelTimeout();
    shared.refusedBy.clear();
    if (shared.accepted) return;
    shared.accepted = true;
    for (const subscriber of [...shared.subscribers]) subscriber.accepted();
  }

  function onRefused(shared: SharedSubscription, errorText: string): void {
    if (!shared.accepted) {
      const meaning = meaningOfErrorText(errorText, shared.placed.method);
      const isAgain = meaning === 'unknown' && shared.refusal?.meaning === 'unknown';
      if (isFinalAnswer(meaning) || isAgain) {
        end(shared, (subscriber) => subscriber.refused({ errorText }));
        return;
      }
      if (shared.refusal === null || isMoreUseful(meaning, shared.refusal.meaning))
        shared.refusal = { meaning, errorText };
    }
    // This upstream cannot carry it, another one may.
    moveOn(shared);
  }

  function onUnanswered(shared: SharedSubscription): void {
    // Clients that still wait have their own timeout.
    if (shared.accepted) moveOn(shared);
  }

  function moveOn(shared: SharedSubscription): void {
    if (shared.link !== null) shared.refusedBy.add(shared.link.label);
    shared.link = null;
    place(shared);
  }

  function onNotified(shared: SharedSubscription, bytes: Buffer, at: JsonMember): void {
    const { family } = shared.placed;
    const last = family === 'signature' && !isReceivedNotice(bytes);
    if (!last) {
      if (parts.limits.deduplicate && shared.repeats.isRepeat(family, bytes, at)) repeated.add();
      else for (const subscriber of shared.subscribers) subscriber.notified(bytes, at, false);
      return;
    }
    end(shared, (subscriber) => subscriber.notified(bytes, at, true), true);
  }

  function onLost(label: string, placed: readonly LinkSubscription[], suspects: readonly LinkSubscription[]): void {
    for (const { owner } of suspects) quarantine.suspect(owner);
    const suspected = new Set(suspects);
    const moving = placed.flatMap((one) => byPlaced.get(one) ?? []).filter(({ link }) => link?.label === label);
    for (const shared of moving) shared.link = null;
    for (const shared of moving)
      if (suspected.has(shared.placed)) isolate(shared);
      else place(shared);
  }

  function end(shared: SharedSubscription, notify: (subscriber: Subscriber) => void, endedThere = false): void {
    if (all.get(shared.key) !== shared) return;
    all.delete(shared.key);
    byPlaced.delete(shared.placed);
    const { owner } = shared.placed;
    const left = (owned.get(owner) ?? 1) - 1;
    if (left === 0) owned.delete(owner);
    else owned.set(owner, left);
    shared.leaveQuarantine();
    shared.cancelTimeout();
    shared.link?.unsubscribe(shared.placed, endedThere);
    shared.link = null;
    for (const subscriber of [...shared.subscribers]) notify(subscriber);
    shared.subscribers.clear();
  }

  return {
    subscribe(call, subscriber, owner = '') {
      const key = `${call.method} ${call.paramsText ?? '[]'}`;
      const existing = all.get(key);
      const shared = existing ?? create(key, call, owner);
      shared.subscribers.add(subscriber);
      if (existing === undefined) place(shared);
      else if (shared.accepted) subscriber.accepted();
      return () => {
        shared.subscribers.delete(subscriber);
        if (shared.subscribers.size === 0) end(shared, () => {});
      };
    },
    close() {
      stopWatching();
      cancelRetry();
      quarantine.close();
      links.close();
      for (const shared of [...all.values()]) end(shared, (subscriber) => subscriber.lost());
    },
  };
}

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

/**
 * A node closes the whole connection over a message that it rejects, and with it all other subscriptions on it. A subscription that was
 * unanswered when a link broke is therefore tried again in isolation, on a separate socket, and returns to the shared links only after the
 * node accepted it there. Further subscriptions of the same owner are isolated for some time. Networks and restarts break connections too:
 * a second socket with a harmless subscription is the control, and a break counts only while the control lives.
 */
export interface Quarantine {
  /** Whether new subscriptions of this owner must first be tried in isolation. */
  distrusts(owner: string): boolean;
  /** A link broke while a subscription of this owner was unanswered. */
  suspect(owner: string): void;
  /** Queues the candidate for an isolated try. The returned function cancels it. */
  add(candidate: QuarantineCandidate): () => void;
  close(): void;
}

/** Exactly one of these is called, once. */
export interface QuarantineCandidate extends Pick<LinkSubscription, 'family' | 'method' | 'paramsText' | 'owner'> {
  /** The upstream accepted it: it is harmless. */
  cleared(): void;
  /** `errorText` is the upstream's error object, raw. */
  refused(errorText: string): void;
  /** The upstream repeatedly closed the connection over it, and no other connection. */
  condemned(): void;
}

export interface QuarantineParts {
  readonly clock: Clock;
  /** A socket without other subscriptions; null when no upstream is available. `lost` receives whether the socket had opened. */
  openProbe(lost: (wasOpen: boolean) => void): UpstreamLink | null;
}

/** Concurrent probes, in total and per owner. */
const MAX_PROBES = 16;
const MAX_PROBES_OF_ONE = 4;
/** Breaks of a connection over the same subscription, while the control lives, that condemn it. */
const BREAKS = 2;
/** How long the control must outlive the probe: a cause that breaks both may reach one of them first. */
const OUTLIVE_MS = 250;
const PROBE_BACKOFF = { firstMs: 1_000, longestMs: 8_000 };
const CONTROL = { owner: '', family: 'slot', method: 'slotSubscribe', paramsText: null } as const;
const DISTRUST_MS = 60_000;
const GUILTY_MS = 600_000;

function createQuarantine({ clock, openProbe }: QuarantineParts): Quarantine {
  interface Entry {
    readonly candidate: QuarantineCandidate;
    tries: number;
    /** Breaks that the control survived. */
    breaks: number;
    /** Monotonic milliseconds. */
    notBefore: number;
    isOver: boolean;
    probe: UpstreamLink | null;
    /** Ends the current try. */
    stop(): void;
  }
  const waiting: Entry[] = [];
  const probing = new Map<string, number>();
  /** By owner: end of the distrust, in monotonic milliseconds. */
  const distrusted = new Map<string, number>();
  let running = 0;
  let isClosed = false;
  let cancelTimer = () => {};

  const distrust = (owner: string, ms: number) =>
    distrusted.set(owner, Math.max(distrusted.get(owner) ?? 0, clock.monotonic() + ms));

  function next(): void {
    cancelTimer();
    if (isClosed) return;
    const now = clock.monotonic();
    for (const entry of [...waiting]) {
      if (running >= MAX_PROBES) return;
      const { owner } = entry.candidate;
      if (entry.notBefore > now || (probing.get(owner) ?? 0) >= MAX_PROBES_OF_ONE) continue;
      waiting.splice(waiting.indexOf(entry), 1);
      start(entry);
    }
    const soonest = Math.min(...waiting.map(({ notBefore }) => notBefore));
    if (soonest > now && Number.isFinite(soonest)) cancelTimer = clock.timeout(Math.ceil(soonest - now), next);
  }

  function start(entry: Entry): void {
    const { candidate } = entry;
    const { owner, family, method, paramsText } = candidate;
    let control: UpstreamLink | null = null;
    let hasControl = false;
    let isDone = false;
    let cancelVerdict = () => {};
    const done = (then: () => void) => {
      if (isDone) return;
      isDone = true;
      cancelVerdict();
      running -= 1;
      const left = (probing.get(owner) ?? 1) - 1;
      if (left === 0) probing.delete(owner);
      else probing.set(owner, left);
      entry.stop = () => undefined;
      entry.probe?.close();
      control?.close();
      if (!entry.isOver) then();
      next();
    };
    const again = () => {
      entry.probe = null;
      entry.tries += 1;
      entry.notBefore = clock.monotonic() + backoffMs(entry.tries, null, PROBE_BACKOFF);
      waiting.push(entry);
    };
    const finish = (report: () => void) => {
      entry.isOver = true;
      report();
    };
    const judge = () =>
      done(() => {
        entry.breaks += 1;
        if (entry.breaks < BREAKS) return again();
        distrust(owner, GUILTY_MS);
        finish(candidate.condemned);
      });
    const probe = () => {
      if (hasControl) return;
      hasControl = true;
      entry.probe = openProbe((wasOpen) => {
        if (wasOpen && !isDone) cancelVerdict = clock.timeout(OUTLIVE_MS, judge);
        else done(again);
      });
      if (entry.probe === null) return done(again);
      entry.probe.subscribe({
        owner,
        family,
        method,
        paramsText,
        accepted: () => done(() => finish(candidate.cleared)),
        refused: (errorText) => done(() => finish(() => candidate.refused(errorText))),
        notified: () => undefined,
        unanswered: () => done(again),
      });
    };
    running += 1;
    probing.set(owner, (probing.get(owner) ?? 0) + 1);
    entry.stop = () => done(() => undefined);
    control = openProbe(() => done(again));
    if (control === null) {
      done(again);
      return;
    }
    control.subscribe({
      ...CONTROL,
      // A node that refuses this subscription is alive too.
      accepted: probe,
      refused: probe,
      notified: () => undefined,
      unanswered: () => done(again),
    });
  }

  return {
    distrusts(owner) {
      const untilMs = distrusted.get(owner);
      if (untilMs === undefined) return false;
      if (untilMs > clock.monotonic()) return true;
      distrusted.delete(owner);
      return false;
    },
    suspect: (owner) => void distrust(owner, DISTRUST_MS),
    add(candidate) {
      const entry: Entry = {
        candidate,
        tries: 0,
        breaks: 0,
        notBefore: 0,
        isOver: false,
        probe: null,
        stop: () => undefined,
      };
      waiting.push(entry);
      next();
      return () => {
        if (entry.isOver) return;
        entry.isOver = true;
        const at = waiting.indexOf(entry);
        if (at >= 0) waiting.splice(at, 1);
        entry.stop();
      };
    },
    close() {
      isClosed = true;
      cancelTimer();
      waiting.length = 0;
    },
  };
}
