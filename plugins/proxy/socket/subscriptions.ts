import type { WebSocket } from 'ws';
import { type JsonMember, withoutBlanks } from '../../../src/lib/json-members.ts';
import type { FollowedSubscriptions, SocketCall, SocketCalls, SocketOutcome } from '../../../src/plugin/host.ts';
import { type Clock, type Price, RPC_CODES, RpcError } from '../../../src/plugin/plugin.ts';
import type { Lease, StreamMeter, Tenant } from '../../../src/ports/access.ts';
import type { Hub, Subscriber } from './hub.ts';

export interface SubscriptionsParts {
  /** Null when no upstream is configured. */
  readonly hub: Hub | null;
  /** Null: only upstreams answer subscriptions. */
  readonly followed: FollowedSubscriptions | null;
  readonly outlet: Outlet;
  readonly price: (method: string) => Price;
  readonly maxSubscriptions: number;
  /** Largest size of the parameters of one subscription. */
  readonly maxParamsBytes: number;
  /** Tenant that holds them; undefined when nothing is counted. */
  readonly tenant: Tenant | undefined;
  /** Bytes of notifications that may wait for the answer to their subscription. */
  readonly maxHeldBytes: number;
}

/** The subscriptions of one client, with ids per client. */
export interface Subscriptions {
  /** Starts the calls of one message. */
  calls(): MessageCalls;
  end(): void;
}

export interface MessageCalls extends SocketCalls {
  /** The message is answered: its client now knows the subscription numbers, and notifications may follow. */
  answered(): void;
}

export function createSubscriptions(parts: SubscriptionsParts): Subscriptions {
  const { outlet } = parts;
  /** Functions that end each subscription. */
  const own = new Map<number, () => void>();
  /** By method and params: a node gives the same call on the same socket the same number, and notifies it once. */
  const outcomes = new Map<string, Promise<SocketOutcome>>();
  let nextId = 1;
  let ended = false;

  /** Any `…Unsubscribe` ends a subscription of any kind, as on a node: some clients use one method for all. */
  function unsubscribe({ params }: SocketCall): SocketOutcome {
    const [id] = Array.isArray(params) ? (params as unknown[]) : [];
    if (typeof id !== 'number')
      throw new RpcError('invalidParams', { details: 'params[0] must be the number of a subscription' });
    const leave = own.get(id);
    if (leave === undefined) throw new RpcError('invalidParams', { message: 'Invalid subscription id.' });
    own.delete(id);
    leave();
    return { resultText: 'true' };
  }

  function subscribe(asked: SocketCall, held: Held): Promise<SocketOutcome> {
    const { method, ...written } = asked;
    const follows = parts.followed?.serves(asked) ?? null;
    const paramsText = written.paramsText === null ? null : withoutBlanks(written.paramsText);
    const key = `${method} ${paramsText ?? '[]'}`;
    const same = outcomes.get(key);
    if (same !== undefined) return same;
    if (own.size >= parts.maxSubscriptions) {
      throw new RpcError('tooManyRequests', {
        details: `at most ${parts.maxSubscriptions} subscriptions per connection`,
      });
    }
    const isOurs = follows === 'always';
    const most = isOurs ? parts.followed!.maxParamsBytes() : parts.maxParamsBytes;
    const release = holdPlace(Buffer.byteLength(paramsText ?? ''), most);
    const id = nextId++;
    const idBytes = Buffer.from(String(id));
    const drop = () => {
      own.delete(id);
      outcomes.delete(key);
      release();
    };
    const outcome = new Promise<SocketOutcome>((resolve, reject) => {
      let leave = () => {};
      let gone = false;
      own.set(id, () => {
        gone = true;
        drop();
        leave();
        // The client or its subscription ended before the upstream answered.
        reject(new RpcError('unavailable'));
      });
      const call = {
        method,
        family: method.slice(0, -'Subscribe'.length),
        paramsText,
      };
      const subscriber: Subscriber = {
        accepted: () => resolve({ resultText: String(id) }),
        refused: (reason) => {
          drop();
          if ('errorText' in reason) resolve(reason);
          else reject(reason.error);
        },
        notified: (bytes, at, last) => {
          if (last) drop();
          held.send(withSubscriptionId(bytes, at, idBytes));
        },
        lost: ({ code, reason } = { code: 1012, reason: 'the subscription was lost' }) => {
          drop();
          reject(new RpcError('unavailable'));
          // The protocol has no message for a lost subscription; a client that reconnects gets the reason in the answer.
          outlet.close(code, reason);
        },
      };
      const follow = () => {
        const shown = { ...asked, paramsText };
        const { ready } = outlet;
        leave = parts.followed!.subscribe(shown, { ...subscriber, ready }, parts.tenant);
        if (gone) leave();
      };
      if (isOurs || parts.hub === null) return follow();
      const orFollow: Subscriber = {
        ...subscriber,
        // An upstream that lacks it, or none that answers: then the blocks that the daemon follows.
        refused: (reason) => (gone || !isLacking(reason) ? subscriber.refused(reason) : follow()),
      };
      leave = parts.hub.subscribe(call, follows === null ? subscriber : orFollow, parts.tenant?.id);
      if (gone) leave();
    });
    if (own.has(id)) outcomes.set(key, outcome);
    return outcome;
  }

  /** Throws GateRefusal when the project has too many. The returned function releases the place. */
  function holdPlace(bytes: number, most: number): () => void {
    if (bytes > most) {
      const details = `the parameters of a subscription have at most ${most} bytes`;
      throw new RpcError('invalidParams', { details });
    }
    const place = parts.tenant?.take('subscriptions', 1);
    let room: Lease | undefined;
    try {
      room = parts.tenant?.take('subscriptionBytes', bytes);
    } catch (error) {
      place?.release();
      throw error;
    }
    return () => {
      place?.release();
      room?.release();
    };
  }

  return {
    calls() {
      const held = holdBack(outlet, parts.maxHeldBytes);
      return {
        price: parts.price,
        maxAnswerBytes: parts.maxHeldBytes,
        run: async (call) => {
          if (call.method.endsWith('Unsubscribe')) return unsubscribe(call);
          if (ended) throw new RpcError('unavailable');
          if (parts.hub === null && (parts.followed?.serves(call) ?? null) === null)
            throw new RpcError('methodNotFound', { details: 'no Solana upstream is configured' });
          return subscribe(call, held);
        },
        answered: held.release,
      };
    },
    end() {
      ended = true;
      const leaving = [...own.values()];
      for (const leave of leaving) leave();
    },
  };
}

/** Whether an upstream does not have the subscription, or none answered. */
function isLacking(reason: Parameters<Subscriber['refused']>[0]): boolean {
  if ('error' in reason) return reason.error.rpcCode !== RPC_CODES.invalidParams.code;
  const { code } = JSON.parse(reason.errorText) as { readonly code?: unknown };
  return code === RPC_CODES.methodNotFound.code;
}

interface Held {
  send(notification: Buffer): void;
  release(): void;
}

/** Holds notifications until they are released, and forwards later ones. */
function holdBack(outlet: Outlet, maxBytes: number): Held {
  let waiting: Buffer[] | null = [];
  let bytes = 0;
  return {
    send(notification) {
      bytes += notification.length;
      if (waiting === null) outlet.send(notification);
      else if (bytes <= maxBytes) waiting.push(notification);
      else outlet.close(1013, 'too slow');
    },
    release() {
      for (const notification of waiting ?? []) outlet.send(notification);
      waiting = null;
    },
  };
}

function withSubscriptionId(bytes: Buffer, at: Pick<JsonMember, 'start' | 'end'>, id: Buffer): Buffer {
  return Buffer.concat([bytes.subarray(0, at.start), id, bytes.subarray(at.end)]);
}

/** The output to one client: a bounded queue. */
export interface Outlet {
  /** False when the client is too slow or closing; nothing more is sent then. */
  send(message: Buffer | string): boolean;
  /** Resolves when little waits for the client, or it has gone. */
  ready(): Promise<void>;
  close(code: number, reason: string): void;
  /** Called when the socket has closed. */
  end(): void;
}

/** How long a client has to read its queue and answer the close. */
const FAREWELL_MS = 5_000;

/** Smaller messages on an empty queue go to the system at once and hardly ever wait. */
const SMALL_BYTES = 16_384;

/** A replay goes on when fewer bytes wait. */
const READY_BYTES = 524_288;

/** Queued bytes count as answers held by `tenant`. */
export function createOutlet(socket: WebSocket, clock: Clock, maxQueuedBytes: number, tenant?: Tenant): Outlet {
  const lease = tenant?.take('answerBytes', 0);
  let closing = false;
  const waiting: (() => void)[] = [];
  let cancelFarewell = () => {};

  function close(code: number, reason: string): void {
    if (closing) return;
    closing = true;
    wake();
    socket.close(code, reason);
    cancelFarewell = clock.timeout(FAREWELL_MS, () => socket.terminate());
  }

  function mayHold(queued: number, more: number): boolean {
    if (lease === undefined || (queued === 0 && lease.amount === 0 && more <= SMALL_BYTES)) return true;
    try {
      lease.set(queued + more);
      return true;
    } catch {
      return false;
    }
  }

  const isReady = () => closing || socket.readyState !== socket.OPEN || socket.bufferedAmount < READY_BYTES;

  function wake(): void {
    if (waiting.length === 0 || !isReady()) return;
    for (const resolve of waiting.splice(0)) resolve();
  }

  function sent(): void {
    wake();
    if (lease !== undefined && socket.bufferedAmount < lease.amount) lease.set(socket.bufferedAmount);
  }

  return {
    send(message) {
      if (closing || socket.readyState !== socket.OPEN) return false;
      const queued = socket.bufferedAmount;
      if (queued + message.length > maxQueuedBytes || !mayHold(queued, message.length)) {
        close(1013, 'too slow');
        return false;
      }
      socket.send(message, { binary: false }, sent);
      if (lease !== undefined && lease.amount !== socket.bufferedAmount) mayHold(socket.bufferedAmount, 0);
      return true;
    },
    ready: () =>
      new Promise((resolve) => {
        if (isReady()) resolve();
        else waiting.push(resolve);
      }),
    close,
    end() {
      closing = true;
      wake();
      lease?.release();
      cancelFarewell();
    },
  };
}

/** Output for notifications, which cost credits by their bytes. A client without credits is closed with 1008. */
export function createPaidOutlet(outlet: Outlet, meter: StreamMeter, maxHeldBytes: number): Outlet {
  /** Notifications that wait while credits are charged; null: no charge is in flight. */
  let held: Buffer[] | null = null;
  let heldBytes = 0;
  const waiting: (() => void)[] = [];

  function sendPaid(message: Buffer | string): boolean {
    const isSent = outlet.send(message);
    if (isSent) meter.count(Buffer.byteLength(message));
    return isSent;
  }

  function wake(): void {
    for (const resolve of waiting.splice(0)) resolve();
  }

  async function sendHeld(): Promise<void> {
    await tryHeld();
    wake();
  }

  async function tryHeld(): Promise<void> {
    try {
      await meter.refresh();
    } catch {
      outlet.close(1013, 'try again later');
      return;
    }
    const messages = held ?? [];
    held = null;
    heldBytes = 0;
    for (const message of messages) {
      if (!meter.affords(message.length)) {
        outlet.close(1008, 'max usage reached');
        return;
      }
      sendPaid(message);
    }
  }

  return {
    ...outlet,
    async ready() {
      if (held !== null) await new Promise<void>((resolve) => waiting.push(resolve));
      await outlet.ready();
    },
    send(message) {
      if (held === null && meter.affords(Buffer.byteLength(message))) return sendPaid(message);
      const bytes = Buffer.from(message);
      heldBytes += bytes.length;
      if (heldBytes > maxHeldBytes) {
        outlet.close(1013, 'too slow');
        return false;
      }
      if (held !== null) {
        held.push(bytes);
        return true;
      }
      held = [bytes];
      void sendHeld();
      return true;
    },
  };
}
