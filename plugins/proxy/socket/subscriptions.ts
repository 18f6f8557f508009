import { type Price, RpcError, type SocketAdmit } from '../../../src/kernel/plugin.ts';
import type { JsonMember } from '../../../src/lib/json-members.ts';
import type { Hub } from './hub.ts';
import { errorReply, resultReply, type SubscriptionCall } from './message.ts';
import type { Outlet } from './outlet.ts';
import { errorText } from './refusal.ts';

export interface SubscriptionsParts {
  /** Null when no upstream is configured. */
  readonly hub: Hub | null;
  readonly outlet: Outlet;
  readonly admit: SocketAdmit;
  readonly price: (method: string) => Price;
  readonly maxSubscriptions: number;
  /** Whether the configuration lets the method pass. */
  readonly allowed: (method: string) => boolean;
}

/** The subscriptions of one client, under ids of its own. */
export interface Subscriptions {
  /** Answers through the outlet, or throws what becomes the error of the answer. */
  handle(call: SubscriptionCall, idText: string): Promise<void>;
  end(): void;
}

interface Own {
  readonly family: string;
  leave(): void;
}

export function createSubscriptions(parts: SubscriptionsParts): Subscriptions {
  const { outlet } = parts;
  const own = new Map<number, Own>();
  let nextId = 1;
  let ended = false;

  async function handle(call: SubscriptionCall, idText: string): Promise<void> {
    if (parts.hub === null) throw new RpcError('methodNotFound', { details: 'no Solana upstream is configured' });
    if (call.kind === 'subscribe' && !parts.allowed(call.method)) throw new RpcError('methodNotFound');
    const price = parts.price(call.method);
    const admission = await parts.admit([{ name: call.method, price, permission: undefined }]);
    let settled = false;
    const settle = (charged: boolean, bytesOut: number) => {
      if (settled) return;
      settled = true;
      admission.settle([{ charged, bytesOut }]);
    };
    try {
      if (call.kind === 'unsubscribe') unsubscribe(call, idText, settle);
      else subscribe(parts.hub, call, idText, settle);
    } catch (error) {
      settle(false, 0);
      throw error;
    }
  }

  function unsubscribe(call: SubscriptionCall, idText: string, settle: Settle): void {
    const [id] = Array.isArray(call.params) ? (call.params as unknown[]) : [];
    const entry = typeof id === 'number' ? own.get(id) : undefined;
    if (entry === undefined || entry.family !== call.family) {
      throw new RpcError('invalidParams', { details: 'there is no such subscription on this connection' });
    }
    own.delete(id as number);
    entry.leave();
    const text = resultReply(idText, 'true');
    outlet.send(text);
    settle(true, text.length);
  }

  function subscribe(hub: Hub, call: SubscriptionCall, idText: string, settle: Settle): void {
    if (ended) {
      settle(false, 0);
      return;
    }
    if (own.size >= parts.maxSubscriptions) {
      throw new RpcError('tooManyRequests', {
        details: `at most ${parts.maxSubscriptions} subscriptions per connection`,
      });
    }
    const id = nextId++;
    const idBytes = Buffer.from(String(id));
    let leave = () => {};
    let gone = false;
    const entry: Own = {
      family: call.family,
      leave: () => {
        gone = true;
        leave();
      },
    };
    own.set(id, entry);
    const drop = () => own.delete(id);
    leave = hub.subscribe(call, {
      accepted: () => {
        const text = resultReply(idText, String(id));
        outlet.send(text);
        settle(true, text.length);
      },
      refused: (reason) => {
        drop();
        const fromUpstream = 'errorText' in reason;
        const text = errorReply(idText, fromUpstream ? reason.errorText : errorText(reason.error));
        if (!gone) outlet.send(text);
        settle(fromUpstream, text.length);
      },
      notified: (bytes, at, last) => {
        if (last) drop();
        outlet.send(withSubscriptionId(bytes, at, idBytes));
      },
      lost: () => {
        drop();
        settle(false, 0);
        // There is no message for a subscription that ended; a client that reconnects learns why from the answer.
        outlet.close(1012, 'the subscription was lost');
      },
    });
    if (gone) leave();
  }

  return {
    handle,
    end() {
      ended = true;
      for (const entry of own.values()) entry.leave();
      own.clear();
    },
  };
}

type Settle = (charged: boolean, bytesOut: number) => void;

function withSubscriptionId(bytes: Buffer, at: JsonMember, id: Buffer): Buffer {
  return Buffer.concat([bytes.subarray(0, at.start), id, bytes.subarray(at.end)]);
}
