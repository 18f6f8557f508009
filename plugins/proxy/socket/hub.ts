import { type Metrics, RpcError } from '../../../src/kernel/plugin.ts';
import type { JsonMember } from '../../../src/lib/json-members.ts';
import type { Link, LinkSubscription } from './link.ts';
import { createLinks, type LinksParts } from './links.ts';
import { isReceivedNotice, type SubscriptionCall } from './message.ts';

/** One client's interest in a subscription. */
export interface Subscriber {
  accepted(): void;
  /** `errorText`: the upstream's error object, raw. Nothing follows. */
  refused(reason: { readonly errorText: string } | { readonly error: RpcError }): void;
  /** `at` is where the upstream's subscription id stands. `last`: nothing follows. */
  notified(bytes: Buffer, at: JsonMember, last: boolean): void;
  /** No upstream carries the subscription any more. Nothing follows. */
  lost(): void;
}

/** Shares identical subscriptions of all clients and keeps them alive over the upstreams. */
export interface Hub {
  /** Calls back at once or later. The returned function ends the interest. */
  subscribe(call: SubscriptionCall, subscriber: Subscriber): () => void;
  close(): void;
}

export interface HubParts extends Omit<LinksParts, 'lost'> {
  readonly metrics: Metrics;
  readonly subscribeTimeoutMs: number;
}

interface Shared {
  readonly key: string;
  readonly placed: LinkSubscription;
  readonly subscribers: Set<Subscriber>;
  /** Whether an upstream ever accepted it: from then on the clients have their ids. */
  accepted: boolean;
  link: Link | null;
  readonly refusedBy: Set<string>;
  cancelTimeout: () => void;
}

export function createHub(parts: HubParts): Hub {
  const { clock } = parts;
  const all = new Map<string, Shared>();
  const links = createLinks({ ...parts, lost: onLost });
  let cancelRetry = () => {};
  let retrying = false;
  const stopWatching = parts.pool.onChange(() => {
    if (retrying) retry();
  });
  parts.metrics.observe('upstream_subscriptions', 'distinct subscriptions held at upstreams', () => all.size);
  parts.metrics.observe('upstream_sockets', 'websockets to upstreams', () => links.size());

  function create(key: string, call: SubscriptionCall): Shared {
    const shared: Shared = {
      key,
      placed: {
        family: call.family,
        method: call.method,
        paramsText: call.paramsText,
        accepted: () => onAccepted(shared),
        refused: (errorText) => onRefused(shared, errorText),
        notified: (bytes, at) => onNotified(shared, bytes, at),
      },
      subscribers: new Set(),
      accepted: false,
      link: null,
      refusedBy: new Set(),
      cancelTimeout: () => {},
    };
    shared.cancelTimeout = clock.timeout(parts.subscribeTimeoutMs, () => {
      if (!shared.accepted) end(shared, (subscriber) => subscriber.refused({ error: new RpcError('timeout') }));
    });
    all.set(key, shared);
    return shared;
  }

  function place(shared: Shared): void {
    const placement = links.place(shared.refusedBy);
    if (placement.kind === 'link') {
      shared.link = placement.link;
      placement.link.subscribe(shared.placed);
    } else if (shared.accepted && placement.kind === 'none') {
      end(shared, (subscriber) => subscriber.lost());
    } else if (shared.accepted || placement.kind === 'rest') {
      retryIn(placement.kind === 'rest' ? placement.ms : parts.subscribeTimeoutMs);
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
    for (const shared of [...all.values()]) if (shared.link === null) place(shared);
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

  function onLost(label: string, placed: readonly LinkSubscription[]): void {
    const lost = new Set(placed);
    const moving = [...all.values()].filter((shared) => lost.has(shared.placed) && shared.link?.label === label);
    for (const shared of moving) shared.link = null;
    for (const shared of moving) place(shared);
  }

  function end(shared: Shared, tell: (subscriber: Subscriber) => void, endedThere = false): void {
    if (all.get(shared.key) !== shared) return;
    all.delete(shared.key);
    shared.cancelTimeout();
    shared.link?.unsubscribe(shared.placed, endedThere);
    shared.link = null;
    for (const subscriber of [...shared.subscribers]) tell(subscriber);
    shared.subscribers.clear();
  }

  return {
    subscribe(call, subscriber) {
      const key = `${call.method} ${call.paramsText ?? '[]'}`;
      const existing = all.get(key);
      const shared = existing ?? create(key, call);
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
      links.close();
      for (const shared of [...all.values()]) end(shared, (subscriber) => subscriber.lost());
    },
  };
}
