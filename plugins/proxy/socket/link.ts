import type { WebSocket } from 'ws';
import { isPlainObject, type JsonMember, objectMembers } from '../../../src/lib/json.ts';
import { rpcRequestOf } from '../../../src/lib/json-rpc.ts';
import type { Clock } from '../../../src/plugin/plugin.ts';
import type { ProxyConfig } from '../config.ts';

/** One subscription as seen by the upstream. The link calls back in the order of the upstream's messages. */
export interface LinkSubscription {
  readonly family: string;
  readonly method: string;
  readonly paramsText: string | null;
  /** Owner that asked for it first. */
  readonly owner: string;
  accepted(subscription: string): void;
  /** `errorText` is the upstream's error object, raw. */
  refused(errorText: string): void;
  notified(bytes: Buffer, at: JsonMember): void;
  /** The upstream did not answer the call in time: the subscription is no longer on the link. */
  unanswered(): void;
}

/** A websocket to an upstream with many subscriptions on it. */
export interface UpstreamLink {
  readonly label: string;
  /** Subscriptions placed on it, accepted or not. */
  load(): number;
  subscribe(subscription: LinkSubscription): void;
  /** Ends a subscription in any state; `endedThere`: the upstream has ended it already. */
  unsubscribe(subscription: LinkSubscription, endedThere: boolean): void;
  /** Ends the link; its subscriptions are passed to `lost` as after a failure. */
  close(): void;
}

export interface LinkParts {
  readonly label: string;
  readonly socket: WebSocket;
  readonly clock: Clock;
  /** Interval of pings, and deadline of the upstream for answering a call. */
  readonly limits: Pick<ProxyConfig['websocket'], 'pingIntervalMs' | 'subscribeTimeoutMs'>;
  /**
   * Called once, with the subscriptions placed on the link and the time it was open. `unanswered`: calls that were sent and not
   * answered, including abandoned ones; one of them may have broken the link.
   */
  lost(subscriptions: readonly LinkSubscription[], openForMs: number, unanswered: readonly LinkSubscription[]): void;
}

/** A node may notify before it answers the subscribe call; this many notifications wait for the answer. */
const MAX_EARLY = 64;
/** A socket that does not open in this time is given up. */
const CONNECT_MS = 10_000;

type Notification = UpstreamMessage & { readonly kind: 'notification' };

interface Waiting {
  readonly subscription: LinkSubscription;
  ended: boolean;
  readonly cancelTimeout: () => void;
}

/**
 * One socket to an upstream. A subscription is `waiting` for its number, then `live` under it; a number that is given up is `ending` until the
 * upstream has said so. Calls before the socket is open are in `outbox`, which is null from then on. After `over` nothing is told.
 */
class SocketLink implements UpstreamLink {
  private readonly parts: LinkParts;
  private readonly waiting = new Map<number, Waiting>();
  /** By the upstream's number. Nodes give the same number to equivalent subscriptions, however their params are written. */
  private readonly live = new Map<string, Set<LinkSubscription>>();
  /** Numbers with an unanswered unsubscribe call, by the id of that call. */
  private readonly ending = new Map<number, string>();
  private early: Notification[] = [];
  private outbox: string[] | null = [];
  private nextId = 1;
  private openedAt: number | null = null;
  private alive = true;
  private over = false;
  private cancelPing = () => {};
  readonly label: UpstreamLink['label'];

  constructor(parts: LinkParts) {
    this.parts = parts;
    this.cancelPing = parts.clock.timeout(CONNECT_MS, () => this.finish());
    parts.socket.on('open', () => {
      this.cancelPing();
      this.cancelPing = parts.clock.timeout(parts.limits.pingIntervalMs, () => this.ping());
      this.openedAt = parts.clock.monotonic();
      this.alive = true;
      const queued = this.outbox ?? [];
      this.outbox = null;
      for (const text of queued) parts.socket.send(text);
    });
    parts.socket.on('message', (data: Buffer | ArrayBuffer | Buffer[]) => {
      // Late messages of a cut socket: its subscriptions have moved.
      if (this.over) return;
      this.alive = true;
      const message = readUpstreamMessage(asBuffer(data));
      if (message.kind === 'reply') this.onReply(message);
      else if (message.kind === 'notification') this.onNotification(message);
    });
    parts.socket.on('pong', () => {
      this.alive = true;
    });
    // The pool may report an address in the error; only the close event counts, and it always follows.
    parts.socket.on('error', () => {});
    parts.socket.on('close', () => this.finish(true));
    this.label = parts.label;
  }

  private send(text: string): void {
    if (this.outbox !== null) this.outbox.push(text);
    else if (!this.over) this.parts.socket.send(text);
  }

  private call(method: string, paramsText: string | null): number {
    const id = this.nextId++;
    this.send(rpcRequestOf(method, paramsText, id));
    return id;
  }

  private onReply({ id, bytes, members }: UpstreamMessage & { kind: 'reply' }): void {
    if (this.ending.delete(id)) return;
    const entry = this.waiting.get(id);
    if (entry === undefined) return;
    this.waiting.delete(id);
    entry.cancelTimeout();
    const text = (name: string) => {
      const member = members.find((other) => other.name === name);
      return member === undefined ? null : bytes.toString('utf8', member.start, member.end);
    };
    const subscription = text('result');
    if (subscription === null || subscription === 'null') {
      const error = text('error');
      if (!entry.ended)
        entry.subscription.refused(isObjectText(error) ? error : '{"code":-32603,"message":"Internal error"}');
    } else if (this.isEndedSince(id, subscription)) {
      if (!entry.ended) this.place(entry.subscription);
    } else if (entry.ended) {
      if (!this.live.has(subscription)) this.endThere(entry.subscription, subscription);
    } else {
      this.onAccepted(entry.subscription, subscription);
    }
    if (this.waiting.size === 0) this.early = [];
  }

  private onAccepted(subscription: LinkSubscription, number: string): void {
    const sharing = this.live.get(number) ?? new Set();
    this.live.set(number, sharing.add(subscription));
    const mine = this.early.filter((message) => message.subscription === number);
    this.early = this.early.filter((message) => message.subscription !== number);
    subscription.accepted(number);
    for (const message of mine) this.onNotification(message);
  }

  /** Whether an unsubscribe was sent after the call that is answered now: it ended this subscription too. */
  private isEndedSince(callId: number, number: string): boolean {
    for (const [endId, ended] of this.ending) if (ended === number && endId > callId) return true;
    return false;
  }

  private endThere({ family }: LinkSubscription, number: string): void {
    this.ending.set(this.call(`${family}Unsubscribe`, `[${number}]`), number);
  }

  private place(subscription: LinkSubscription): void {
    const cancelTimeout = this.parts.clock.timeout(this.parts.limits.subscribeTimeoutMs, () => {
      if (entry.ended) return;
      // Kept, because a late answer has to be undone.
      entry.ended = true;
      subscription.unanswered();
    });
    const entry = { subscription, ended: false, cancelTimeout };
    this.waiting.set(this.call(subscription.method, subscription.paramsText), entry);
  }

  private onNotification(message: Notification): void {
    const sharing = this.live.get(message.subscription);
    if (sharing !== undefined) for (const one of [...sharing]) one.notified(message.bytes, message.at);
    // Late notifications of a number that is being ended must not reach the next subscription with that number.
    else if (
      this.waiting.size > 0 &&
      this.early.length < MAX_EARLY &&
      ![...this.ending.values()].includes(message.subscription)
    )
      this.early.push(message);
  }

  /** `byUpstream`: the upstream or the network ended it. */
  private finish(byUpstream = false): void {
    if (this.over) return;
    this.over = true;
    this.cancelPing();
    for (const { cancelTimeout } of this.waiting.values()) cancelTimeout();
    this.parts.socket.terminate();
    const placed = [
      ...[...this.live.values()].flatMap((sharing) => [...sharing]),
      ...[...this.waiting.values()].filter(({ ended }) => !ended).map((w) => w.subscription),
    ];
    const unanswered =
      this.openedAt === null || !byUpstream ? [] : [...this.waiting.values()].map(({ subscription }) => subscription);
    this.parts.lost(
      placed,
      this.openedAt === null ? 0 : Math.max(1, this.parts.clock.monotonic() - this.openedAt),
      unanswered,
    );
  }

  load() {
    return [...this.live.values()].reduce((sum, sharing) => sum + sharing.size, this.waiting.size);
  }

  private ping(): void {
    // A link without subscriptions is not needed; one without a pong is dead.
    if (!this.alive || this.load() === 0) {
      this.finish();
      return;
    }
    this.alive = false;
    this.parts.socket.ping();
    this.cancelPing = this.parts.clock.timeout(this.parts.limits.pingIntervalMs, () => this.ping());
  }

  readonly subscribe: UpstreamLink['subscribe'] = (subscription) => this.place(subscription);

  readonly unsubscribe: UpstreamLink['unsubscribe'] = (subscription, endedThere) => {
    for (const entry of this.waiting.values()) if (entry.subscription === subscription) entry.ended = true;
    for (const [number, sharing] of this.live) {
      if (!sharing.delete(subscription) || sharing.size > 0) continue;
      this.live.delete(number);
      if (!endedThere) this.endThere(subscription, number);
    }
  };

  close(): void {
    this.finish();
  }
}

export const createLink = (parts: LinkParts): UpstreamLink => new SocketLink(parts);

function asBuffer(data: Buffer | ArrayBuffer | Buffer[]): Buffer {
  if (Array.isArray(data)) return Buffer.concat(data);
  return Buffer.isBuffer(data) ? data : Buffer.from(data);
}

function isObjectText(text: string | null): text is string {
  try {
    return text !== null && isPlainObject(JSON.parse(text));
  } catch {
    return false;
  }
}

/** A subscription as requested by a client. */
export interface SubscriptionCall {
  /** `account` of `accountSubscribe`. */
  readonly family: string;
  readonly method: string;
  /** Raw JSON without whitespace, or null when absent. Integers of any size are unchanged. */
  readonly paramsText: string | null;
}

/** web3.js 1.x sends the notification `ping` every few seconds to keep the connection open; nodes ignore it. */
export function isKeepAlive(message: Buffer): boolean {
  if (message.length > 256 || !message.includes('"ping"')) return false;
  try {
    const value: unknown = JSON.parse(message.toString('utf8'));
    return isPlainObject(value) && value['method'] === 'ping' && !('id' in value);
  } catch {
    return false;
  }
}

/** A message of an upstream. */
export type UpstreamMessage =
  | { readonly kind: 'reply'; readonly id: number; readonly bytes: Buffer; readonly members: readonly JsonMember[] }
  /** `at`: position of the subscription id. */
  | { readonly kind: 'notification'; readonly subscription: string; readonly bytes: Buffer; readonly at: JsonMember }
  | { readonly kind: 'other' };

function readUpstreamMessage(bytes: Buffer): UpstreamMessage {
  const members = objectMembers(bytes);
  const id = members?.find(({ name }) => name === 'id');
  if (members && id) {
    const number = Number(bytes.toString('latin1', id.start, id.end));
    return Number.isSafeInteger(number) ? { kind: 'reply', id: number, bytes, members } : { kind: 'other' };
  }
  const params = members?.find(({ name }) => name === 'params');
  const inner = params ? objectMembers(bytes, params.start, params.end) : null;
  const at = inner?.find(({ name }) => name === 'subscription');
  if (at === undefined) return { kind: 'other' };
  return { kind: 'notification', subscription: bytes.toString('utf8', at.start, at.end), bytes, at };
}

/** Whether a signature notification only reports that the node received the transaction; the subscription then continues. */
export function isReceivedNotice(bytes: Buffer): boolean {
  return bytes.length < 1024 && /"value"\s*:\s*"receivedSignature"/.test(bytes.toString('latin1'));
}
