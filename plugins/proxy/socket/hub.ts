import type { JsonMember } from '../../../src/lib/json.ts';
import { type Metrics, RpcError } from '../../../src/plugin/plugin.ts';
import { isReceivedNotice, type Link, type LinkSubscription, type SubscriptionCall } from './link.ts';
import { createLinks, createQuarantine, type LinksParts } from './links.ts';

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
export interface Hub {
  /** Calls back synchronously or later. The returned function unsubscribes. `owner`: name of its project. */
  subscribe(call: SubscriptionCall, subscriber: Subscriber, owner?: string): () => void;
  close(): void;
}

export interface HubParts extends Omit<LinksParts, 'lost' | 'isSuspect'> {
  readonly metrics: Metrics;
}

interface Shared {
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
  link: Link | null;
  readonly refusedBy: Set<string>;
  cancelTimeout: () => void;
}

export function createHub(parts: HubParts): Hub {
  const { clock } = parts;
  const all = new Map<string, Shared>();
  const byPlaced = new Map<LinkSubscription, Shared>();
  /** Number of subscriptions at upstreams, by the owner that asked first. */
  const owned = new Map<string, number>();
  const links = createLinks({ ...parts, lost: onLost, isSuspect: (placed) => !isProven(byPlaced.get(placed)) });
  const quarantine = createQuarantine({ clock, openProbe: links.probe });
  let cancelRetry = () => {};
  let retrying = false;
  const stopWatching = parts.pool.onChange(() => {
    if (retrying) retry();
  });
  parts.metrics.observe('upstream_subscriptions', 'distinct subscriptions held at upstreams', () => all.size);
  parts.metrics.observe('upstream_sockets', 'websockets to upstreams', () => links.size());

  function create(key: string, call: SubscriptionCall, owner: string): Shared {
    const shared: Shared = {
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
      cancelTimeout: () => {},
    };
    shared.cancelTimeout = clock.timeout(parts.limits.subscribeTimeoutMs, () => {
      if (!shared.accepted) end(shared, (subscriber) => subscriber.refused({ error: new RpcError('timeout') }));
    });
    all.set(key, shared);
    byPlaced.set(shared.placed, shared);
    owned.set(owner, (owned.get(owner) ?? 0) + 1);
    return shared;
  }

  /** A subscription that an upstream accepted once cannot be the cause of a closed connection. A removed one proves nothing. */
  function isProven(shared: Shared | undefined): boolean {
    return shared !== undefined && (shared.accepted || shared.cleared);
  }

  function isolate(shared: Shared): void {
    if (shared.inQuarantine) return;
    shared.inQuarantine = true;
    const { family, method, paramsText, owner } = shared.placed;
    const leave = () => {
      shared.inQuarantine = false;
    };
    shared.leaveQuarantine = quarantine.add({
      ...{ family, method, paramsText, owner },
      cleared: () => {
        leave();
        shared.cleared = true;
        place(shared);
      },
      refused: (errorText) => {
        leave();
        onRefused(shared, errorText);
      },
      condemned: () => {
        leave();
        const details = 'the upstream closed the connection over this subscription';
        end(shared, (subscriber) => subscriber.refused({ error: new RpcError('invalidParams', { details }) }));
      },
    });
  }

  function place(shared: Shared): void {
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
      const error = new RpcError('unavailable', details === undefined ? {} : { details });
      end(shared, (subscriber) => subscriber.refused({ error }));
    }
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

  function onAccepted(shared: Shared): void {
    shared.cancelTimeout();
    shared.refusedBy.clear();
    if (shared.accepted) return;
    shared.accepted = true;
    for (const subscriber of [...shared.subscribers]) subscriber.accepted();
  }

  function onRefused(shared: Shared, errorText: string): void {
    if (!shared.accepted) {
      end(shared, (subscriber) => subscriber.refused({ errorText }));
      return;
    }
    // It was accepted elsewhere: this upstream cannot carry it, another one may.
    moveOn(shared);
  }

  function onUnanswered(shared: Shared): void {
    // Clients that still wait have their own timeout.
    if (shared.accepted) moveOn(shared);
  }

  function moveOn(shared: Shared): void {
    if (shared.link !== null) shared.refusedBy.add(shared.link.label);
    shared.link = null;
    place(shared);
  }

  function onNotified(shared: Shared, bytes: Buffer, at: JsonMember): void {
    const last = shared.placed.family === 'signature' && !isReceivedNotice(bytes);
    if (!last) {
      for (const subscriber of shared.subscribers) subscriber.notified(bytes, at, false);
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

  function end(shared: Shared, notify: (subscriber: Subscriber) => void, endedThere = false): void {
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
