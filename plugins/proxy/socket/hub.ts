import type { JsonMember } from '../../../src/lib/json.ts';
import { type Metrics, RpcError } from '../../../src/plugin/plugin.ts';
import type { Counter } from '../../../src/ports/telemetry.ts';
import {
  isFinalAnswer,
  isMoreUseful,
  meaningOfErrorText,
  type NodeErrorMeaning,
} from '../../../src/solana/node-errors.ts';
import { isReceivedNotice, type LinkSubscription, type SubscriptionCall, type UpstreamLink } from './link.ts';
import { createLinks, type LinksParts } from './links.ts';
import { createQuarantine } from './quarantine.ts';
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
  return new SharedSubscriptions(parts);
}

class SharedSubscriptions implements SubscriptionHub {
  private readonly parts: HubParts;
  private readonly all = new Map<string, SharedSubscription>();
  private readonly byPlaced = new Map<LinkSubscription, SharedSubscription>();
  /** Number of subscriptions at upstreams, by the owner that asked first. */
  private readonly owned = new Map<string, number>();
  private readonly links: ReturnType<typeof createLinks>;
  private readonly quarantine: ReturnType<typeof createQuarantine>;
  private readonly repeated: Counter;
  private readonly stopWatching: () => void;
  private cancelRetry: () => void = () => {};
  private retrying = false;

  constructor(parts: HubParts) {
    const { clock, metrics, pool } = parts;
    this.parts = parts;
    this.links = createLinks({
      ...parts,
      lost: (label, placed, suspects) => this.onLost(label, placed, suspects),
      isSuspect: (placed) => !this.isProven(this.byPlaced.get(placed)),
    });
    this.quarantine = createQuarantine({ clock, openProbe: this.links.probe });
    this.repeated = metrics.counter(
      'repeated_notifications_total',
      'notifications of upstreams that proxy.websocket.deduplicate left out',
    );
    this.stopWatching = pool.onChange(() => {
      if (this.retrying) this.retry();
    });
    metrics.observe('upstream_subscriptions', 'distinct subscriptions held at upstreams', () => this.all.size);
    metrics.observe('upstream_sockets', 'websockets to upstreams', () => this.links.size());
  }

  subscribe(call: SubscriptionCall, subscriber: Subscriber, owner = ''): () => void {
    const key = `${call.method} ${call.paramsText ?? '[]'}`;
    const existing = this.all.get(key);
    const shared = existing ?? this.create(key, call, owner);
    shared.subscribers.add(subscriber);
    if (existing === undefined) this.place(shared);
    else if (shared.accepted) subscriber.accepted();
    return () => {
      shared.subscribers.delete(subscriber);
      if (shared.subscribers.size === 0) this.end(shared, () => {});
    };
  }

  close(): void {
    this.stopWatching();
    this.cancelRetry();
    this.quarantine.close();
    this.links.close();
    for (const shared of [...this.all.values()]) this.end(shared, (subscriber) => subscriber.lost());
  }

  private create(key: string, call: SubscriptionCall, owner: string): SharedSubscription {
    const shared: SharedSubscription = {
      key,
      placed: {
        family: call.family,
        method: call.method,
        paramsText: call.paramsText,
        owner,
        accepted: () => this.onAccepted(shared),
        refused: (errorText) => this.onRefused(shared, errorText),
        notified: (bytes, at) => this.onNotified(shared, bytes, at),
        unanswered: () => this.onUnanswered(shared),
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
    shared.cancelTimeout = this.parts.clock.timeout(this.parts.limits.subscribeTimeoutMs, () => {
      if (!shared.accepted) this.refuse(shared, new RpcError('timeout'));
    });
    this.all.set(key, shared);
    this.byPlaced.set(shared.placed, shared);
    this.owned.set(owner, (this.owned.get(owner) ?? 0) + 1);
    return shared;
  }

  /** A subscription that an upstream accepted once cannot be the cause of a closed connection. A removed one proves nothing. */
  private isProven(shared: SharedSubscription | undefined): boolean {
    return shared !== undefined && (shared.accepted || shared.cleared);
  }

  private isolate(shared: SharedSubscription): void {
    if (shared.inQuarantine) return;
    shared.inQuarantine = true;
    const { family, method, paramsText, owner } = shared.placed;
    const leave = () => {
      shared.inQuarantine = false;
    };
    shared.leaveQuarantine = this.quarantine.add({
      family,
      method,
      paramsText,
      owner,
      cleared: () => {
        leave();
        shared.cleared = true;
        this.place(shared);
      },
      refused: (errorText) => {
        leave();
        // What is answered closes no connection.
        shared.cleared = true;
        this.onRefused(shared, errorText);
      },
      condemned: () => {
        leave();
        const details = 'the upstream closed the connection over this subscription';
        this.end(shared, (subscriber) => subscriber.refused({ error: new RpcError('invalidParams', { details }) }));
      },
    });
  }

  private place(shared: SharedSubscription): void {
    const { owner } = shared.placed;
    if (!this.isProven(shared) && this.quarantine.distrusts(owner)) {
      this.isolate(shared);
      return;
    }
    const isSmall = (this.owned.get(owner) ?? 0) <= this.all.size / Math.max(1, this.owned.size);
    const placement = this.links.place(shared.refusedBy, isSmall);
    if (placement.kind === 'link') {
      shared.link = placement.link;
      placement.link.subscribe(shared.placed);
    } else if (shared.accepted && placement.kind === 'none') {
      this.end(shared, (subscriber) => subscriber.lost());
    } else if (shared.accepted || placement.kind === 'rest') {
      this.retryIn(placement.kind === 'rest' ? placement.ms : this.parts.limits.subscribeTimeoutMs);
    } else {
      const details = placement.kind === 'full' ? 'no room for more subscriptions' : undefined;
      this.refuse(shared, new RpcError('unavailable', details === undefined ? {} : { details }));
    }
  }

  /** Ends one that no upstream accepted, with the most useful refusal of an upstream; `error`: if there is none. */
  private refuse(shared: SharedSubscription, error: RpcError): void {
    const { refusal } = shared;
    this.end(shared, (subscriber) =>
      subscriber.refused(refusal === null ? { error } : { errorText: refusal.errorText }),
    );
  }

  private retryIn(ms: number): void {
    if (this.retrying) return;
    this.retrying = true;
    this.cancelRetry = this.parts.clock.timeout(Math.ceil(ms), () => this.retry());
  }

  private retry(): void {
    this.cancelRetry();
    this.retrying = false;
    for (const shared of [...this.all.values()]) if (shared.link === null && !shared.inQuarantine) this.place(shared);
  }

  private onAccepted(shared: SharedSubscription): void {
    shared.cancelTimeout();
    shared.refusedBy.clear();
    if (shared.accepted) return;
    shared.accepted = true;
    for (const subscriber of [...shared.subscribers]) subscriber.accepted();
  }

  private onRefused(shared: SharedSubscription, errorText: string): void {
    if (!shared.accepted) {
      const meaning = meaningOfErrorText(errorText, shared.placed.method);
      const isAgain = meaning === 'unknown' && shared.refusal?.meaning === 'unknown';
      if (isFinalAnswer(meaning) || isAgain) {
        this.end(shared, (subscriber) => subscriber.refused({ errorText }));
        return;
      }
      if (shared.refusal === null || isMoreUseful(meaning, shared.refusal.meaning))
        shared.refusal = { meaning, errorText };
    }
    // This upstream cannot carry it, another one may.
    this.moveOn(shared);
  }

  private onUnanswered(shared: SharedSubscription): void {
    // Clients that still wait have their own timeout.
    if (shared.accepted) this.moveOn(shared);
  }

  private moveOn(shared: SharedSubscription): void {
    if (shared.link !== null) shared.refusedBy.add(shared.link.label);
    shared.link = null;
    this.place(shared);
  }

  private onNotified(shared: SharedSubscription, bytes: Buffer, at: JsonMember): void {
    const { family } = shared.placed;
    const last = family === 'signature' && !isReceivedNotice(bytes);
    if (!last) {
      if (this.parts.limits.deduplicate && shared.repeats.isRepeat(family, bytes, at)) this.repeated.add();
      else for (const subscriber of shared.subscribers) subscriber.notified(bytes, at, false);
      return;
    }
    this.end(shared, (subscriber) => subscriber.notified(bytes, at, true), true);
  }

  private onLost(label: string, placed: readonly LinkSubscription[], suspects: readonly LinkSubscription[]): void {
    for (const { owner } of suspects) this.quarantine.suspect(owner);
    const suspected = new Set(suspects);
    const moving = placed.flatMap((one) => this.byPlaced.get(one) ?? []).filter(({ link }) => link?.label === label);
    for (const shared of moving) shared.link = null;
    for (const shared of moving)
      if (suspected.has(shared.placed)) this.isolate(shared);
      else this.place(shared);
  }

  private end(shared: SharedSubscription, notify: (subscriber: Subscriber) => void, endedThere = false): void {
    if (this.all.get(shared.key) !== shared) return;
    this.all.delete(shared.key);
    this.byPlaced.delete(shared.placed);
    const { owner } = shared.placed;
    const left = (this.owned.get(owner) ?? 1) - 1;
    if (left === 0) this.owned.delete(owner);
    else this.owned.set(owner, left);
    shared.leaveQuarantine();
    shared.cancelTimeout();
    shared.link?.unsubscribe(shared.placed, endedThere);
    shared.link = null;
    for (const subscriber of [...shared.subscribers]) notify(subscriber);
    shared.subscribers.clear();
  }
}
