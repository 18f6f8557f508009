import type { WebSocket } from 'ws';
import type { Clock } from '../../../src/kernel/plugin.ts';
import type { JsonMember } from '../../../src/lib/json-members.ts';
import { isPlainObject } from '../../../src/lib/plain-object.ts';
import { readUpstreamMessage, type UpstreamMessage } from './message.ts';

/** One subscription as the upstream sees it. The link calls back in the order of the upstream's messages. */
export interface LinkSubscription {
  readonly family: string;
  readonly method: string;
  readonly paramsText: string | null;
  accepted(subscription: string): void;
  /** `errorText` is the upstream's error object, raw. */
  refused(errorText: string): void;
  notified(bytes: Buffer, at: JsonMember): void;
}

/** A websocket to an upstream with many subscriptions on it. */
export interface Link {
  readonly label: string;
  /** Subscriptions that are placed on it, accepted or not. */
  load(): number;
  subscribe(subscription: LinkSubscription): void;
  /** Ends a subscription in whatever state it is; `endedThere`: the upstream has ended it already. */
  unsubscribe(subscription: LinkSubscription, endedThere: boolean): void;
  /** Ends the link; the subscriptions on it are handed to `lost` as after a failure. */
  close(): void;
}

export interface LinkParts {
  readonly label: string;
  readonly socket: WebSocket;
  readonly clock: Clock;
  readonly pingIntervalMs: number;
  /** Called once, with what was placed on the link. `opened` tells for how long it was up. */
  lost(subscriptions: readonly LinkSubscription[], openForMs: number): void;
}

/** A node may notify before it has answered the subscribe call; so many notifications wait for that answer. */
const MAX_EARLY = 64;
/** A socket that does not open in this time goes to nobody. */
const CONNECT_MS = 10_000;

interface Waiting {
  readonly subscription: LinkSubscription;
  ended: boolean;
}

export function createLink(parts: LinkParts): Link {
  const { socket, clock } = parts;
  const waiting = new Map<number, Waiting>();
  const live = new Map<string, LinkSubscription>();
  const early: (UpstreamMessage & { kind: 'notification' })[] = [];
  let outbox: string[] | null = [];
  let nextId = 1;
  let openedAt: number | null = null;
  let alive = true;
  let over = false;
  let cancelPing = () => {};

  function send(text: string): void {
    if (outbox !== null) outbox.push(text);
    else if (!over) socket.send(text);
  }

  function call(method: string, paramsText: string | null): number {
    const id = nextId++;
    const params = paramsText === null ? '' : `,"params":${paramsText}`;
    send(`{"jsonrpc":"2.0","id":${id},"method":"${method}"${params}}`);
    return id;
  }

  function onReply({ id, bytes, members }: UpstreamMessage & { kind: 'reply' }): void {
    const entry = waiting.get(id);
    if (entry === undefined) return;
    waiting.delete(id);
    const text = (name: string) => {
      const member = members.find((other) => other.name === name);
      return member === undefined ? null : bytes.toString('utf8', member.start, member.end);
    };
    const subscription = text('result');
    if (subscription === null || subscription === 'null') {
      const error = text('error');
      if (!entry.ended)
        entry.subscription.refused(isObjectText(error) ? error : '{"code":-32603,"message":"Internal error"}');
    } else if (entry.ended) {
      call(`${entry.subscription.family}Unsubscribe`, `[${subscription}]`);
    } else {
      live.set(subscription, entry.subscription);
      entry.subscription.accepted(subscription);
      for (const message of early.filter((other) => other.subscription === subscription)) onNotification(message);
    }
    if (waiting.size === 0) early.length = 0;
  }

  function onNotification(message: UpstreamMessage & { kind: 'notification' }): void {
    const subscription = live.get(message.subscription);
    if (subscription !== undefined) subscription.notified(message.bytes, message.at);
    else if (waiting.size > 0 && early.length < MAX_EARLY) early.push(message);
  }

  function finish(): void {
    if (over) return;
    over = true;
    cancelPing();
    socket.terminate();
    const placed = [
      ...live.values(),
      ...[...waiting.values()].filter(({ ended }) => !ended).map((w) => w.subscription),
    ];
    parts.lost(placed, openedAt === null ? 0 : clock.monotonic() - openedAt);
  }

  function ping(): void {
    // Without subscriptions the link has no reason to stay; without a sign of life it is dead.
    if (!alive || live.size + waiting.size === 0) {
      finish();
      return;
    }
    alive = false;
    socket.ping();
    cancelPing = clock.timeout(parts.pingIntervalMs, ping);
  }

  cancelPing = clock.timeout(CONNECT_MS, finish);
  socket.on('open', () => {
    cancelPing();
    cancelPing = clock.timeout(parts.pingIntervalMs, ping);
    openedAt = clock.monotonic();
    alive = true;
    const queued = outbox ?? [];
    outbox = null;
    for (const text of queued) socket.send(text);
  });
  socket.on('message', (data: Buffer | ArrayBuffer | Buffer[]) => {
    alive = true;
    const message = readUpstreamMessage(asBuffer(data));
    if (message.kind === 'reply') onReply(message);
    else if (message.kind === 'notification') onNotification(message);
  });
  socket.on('pong', () => {
    alive = true;
  });
  // The pool may report an address in the error: only the close counts, and it always follows.
  socket.on('error', () => {});
  socket.on('close', finish);

  return {
    label: parts.label,
    load: () => live.size + waiting.size,
    subscribe(subscription) {
      waiting.set(call(subscription.method, subscription.paramsText), { subscription, ended: false });
    },
    unsubscribe(subscription, endedThere) {
      for (const entry of waiting.values()) if (entry.subscription === subscription) entry.ended = true;
      for (const [id, other] of live) {
        if (other !== subscription) continue;
        live.delete(id);
        if (!endedThere) call(`${subscription.family}Unsubscribe`, `[${id}]`);
      }
    },
    close: finish,
  };
}

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
