import { type JsonMember, withoutBlanks } from '../../../src/lib/json-members.ts';
import type { SocketCall, SocketCalls, SocketOutcome } from '../../../src/plugin/host.ts';
import { type Price, RpcError } from '../../../src/plugin/plugin.ts';
import type { Lease, Tenant } from '../../../src/ports/access.ts';
import type { Hub, Subscriber } from './hub.ts';
import type { Outlet } from './outlet.ts';

export interface SubscriptionsParts {
  /** Null when no upstream is configured. */
  readonly hub: Hub | null;
  readonly outlet: Outlet;
  readonly price: (method: string) => Price;
  readonly maxSubscriptions: number;
  /** Bytes of the parameters of one subscription. */
  readonly maxParamsBytes: number;
  /** Who holds them; undefined where nobody counts. */
  readonly tenant: Tenant | undefined;
  /** Bytes of notifications that may wait for the answer to their subscription. */
  readonly maxHeldBytes: number;
}

/** The subscriptions of one client, under ids of its own. */
export interface Subscriptions {
  /** The calls of one message. */
  calls(): MessageCalls;
  end(): void;
}

export interface MessageCalls extends SocketCalls {
  /** The message is answered: only now its client knows the numbers of its subscriptions, and notifications may follow. */
  answered(): void;
}

export function createSubscriptions(parts: SubscriptionsParts): Subscriptions {
  const { outlet } = parts;
  /** What ends each of them. */
  const own = new Map<number, () => void>();
  /** By method and params: a node gives the same call on the same socket the same number, and notifies it once. */
  const outcomes = new Map<string, Promise<SocketOutcome>>();
  let nextId = 1;
  let ended = false;

  /** Any `…Unsubscribe` ends a subscription of any kind, as on a node: some clients send the same one for all. */
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

  function subscribe(hub: Hub, { method, ...written }: SocketCall, held: Held): Promise<SocketOutcome> {
    const paramsText = written.paramsText === null ? null : withoutBlanks(written.paramsText);
    const key = `${method} ${paramsText ?? '[]'}`;
    const same = outcomes.get(key);
    if (same !== undefined) return same;
    if (own.size >= parts.maxSubscriptions) {
      throw new RpcError('tooManyRequests', {
        details: `at most ${parts.maxSubscriptions} subscriptions per connection`,
      });
    }
    const release = holdPlace(Buffer.byteLength(paramsText ?? ''));
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
        // The client, or its interest, went before the upstream answered.
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
        lost: () => {
          drop();
          reject(new RpcError('unavailable'));
          // There is no message for a subscription that ended; a client that reconnects learns why from the answer.
          outlet.close(1012, 'the subscription was lost');
        },
      };
      leave = hub.subscribe(call, subscriber, parts.tenant?.id);
      if (gone) leave();
    });
    if (own.has(id)) outcomes.set(key, outcome);
    return outcome;
  }

  /** Throws GateRefusal when its project has too many. The returned function gives the place back. */
  function holdPlace(bytes: number): () => void {
    if (bytes > parts.maxParamsBytes) {
      const details = `the parameters of a subscription have at most ${parts.maxParamsBytes} bytes`;
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
          if (parts.hub === null) throw new RpcError('methodNotFound', { details: 'no Solana upstream is configured' });
          if (call.method.endsWith('Unsubscribe')) return unsubscribe(call);
          if (ended) throw new RpcError('unavailable');
          return subscribe(parts.hub, call, held);
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

interface Held {
  send(notification: Buffer): void;
  release(): void;
}

/** Keeps notifications until they are released, and passes on those that come later. */
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

function withSubscriptionId(bytes: Buffer, at: JsonMember, id: Buffer): Buffer {
  return Buffer.concat([bytes.subarray(0, at.start), id, bytes.subarray(at.end)]);
}
