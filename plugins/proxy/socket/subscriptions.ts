import type { WebSocket } from 'ws';
import { type JsonMember, withoutBlanks } from '../../../src/lib/json.ts';
import type {
  FollowedSubscriptions,
  SocketCall,
  SocketCalls,
  SocketOutcome,
  SocketRules,
} from '../../../src/plugin/host.ts';
import { type Clock, GateRefusal, type Price, RPC_CODES, RpcError } from '../../../src/plugin/plugin.ts';
import type { Lease, StreamMeter, Tenant } from '../../../src/ports/access.ts';
import { isFinalAnswer, meaningOfErrorText } from '../../../src/solana/node-errors.ts';
import { callKey } from './call-key.ts';
import type { Subscriber, SubscriptionHub } from './hub.ts';

export interface SubscriptionsParts {
  /** Null when no upstream is configured. */
  readonly hub: SubscriptionHub | null;
  /** Null: only upstreams answer subscriptions. */
  readonly followed: FollowedSubscriptions | null;
  readonly outlet: Outlet;
  readonly price: (method: string) => Price;
  readonly maxSubscriptions: number;
  /** Largest size of the parameters of one subscription. */
  readonly maxParamsBytes: number;
  /** Tenant that holds them; undefined when nothing is counted. */
  readonly tenant: Tenant;
  /** Bytes of notifications that may wait for the answer to their subscription. */
  readonly maxHeldBytes: number;
  readonly clock: Clock;
}

/** The subscriptions of one client, with ids per client. */
export interface Subscriptions {
  /** Starts the calls of one message. */
  calls(): MessageCalls;
  /** The client has sent a message or a ping. */
  heard(): void;
  /** The project of the client has another plan. */
  planChanged(): void;
  end(): void;
}

export interface MessageCalls extends SocketCalls {
  /** The message is answered: its client now knows the subscription numbers, and notifications may follow. */
  answered(): void;
}

/**
 * The subscriptions of one socket. A number is in `own` from the call until its end, whoever ends it, and holds a place of the project as long;
 * equal calls share the outcome of the first.
 */
class SocketSubscriptions implements Subscriptions {
  private readonly parts: SubscriptionsParts;
  private readonly ruled: ReturnType<typeof createRuled>;
  /** Functions that end each subscription. */
  private readonly own = new Map<number, () => void>();
  /** By `callKey`: a node gives the same call on the same socket the same number, and notifies it once. */
  private readonly outcomes = new Map<string, Promise<SocketOutcome>>();
  private nextId = 1;
  private ended = false;
  readonly heard: Subscriptions['heard'];
  readonly planChanged: Subscriptions['planChanged'];

  constructor(parts: SubscriptionsParts) {
    this.parts = parts;
    this.ruled = createRuled(parts);
    this.heard = this.ruled.heard;
    this.planChanged = this.ruled.planChanged;
  }

  /** Any `…Unsubscribe` ends a subscription of any kind, as on a node: some clients use one method for all. */
  private unsubscribe({ params }: SocketCall): SocketOutcome {
    const [id] = Array.isArray(params) ? (params as unknown[]) : [];
    if (typeof id !== 'number')
      throw new RpcError('invalidParams', { details: 'params[0] must be the number of a subscription' });
    const leave = this.own.get(id);
    if (leave === undefined) throw new RpcError('invalidParams', { message: 'Invalid subscription id.' });
    this.own.delete(id);
    leave();
    return { resultText: 'true' };
  }

  private subscribe(asked: SocketCall, held: HeldOutlet): Promise<SocketOutcome> {
    const { method } = asked;
    const paramsText = asked.paramsText === null ? null : withoutBlanks(asked.paramsText);
    const paramsBytes = Buffer.byteLength(paramsText ?? '');
    this.demandSize(method, paramsBytes);
    const follows = this.parts.followed?.serves(asked) ?? null;
    const key = callKey(method, paramsText);
    const rules = follows === null ? null : this.parts.followed!.rules(asked);
    const same = rules === null ? this.outcomes.get(key) : undefined;
    if (same !== undefined) return same;
    if (rules !== null) this.ruled.demandPlace(rules);
    if (this.own.size >= this.parts.maxSubscriptions) {
      throw new RpcError('tooManyRequests', {
        details: `at most ${this.parts.maxSubscriptions} subscriptions per connection`,
      });
    }
    const isOurs = follows === 'always';
    const free = this.holdPlace(paramsBytes);
    const id = this.nextId++;
    const release = () => {
      free();
      this.ruled.remove(id);
    };
    if (rules !== null) this.ruled.add(id, rules, () => this.own.size);
    const idBytes = Buffer.from(String(id));
    const drop = () => {
      this.own.delete(id);
      this.outcomes.delete(key);
      release();
    };
    const outcome = new Promise<SocketOutcome>((resolve, reject) => {
      let leave = () => {};
      let gone = false;
      this.own.set(id, () => {
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
          held.send(withSubscriptionId(bytes, at, idBytes), rules?.creditsPerNotification);
          if (rules !== null) this.ruled.notified();
        },
        lost: ({ code, reason } = { code: 1012, reason: 'the subscription was lost' }) => {
          drop();
          reject(new RpcError('unavailable'));
          // The protocol has no message for a lost subscription; a client that reconnects gets the reason in the answer.
          this.parts.outlet.close(code, reason);
        },
      };
      const follow = () => {
        const shown = { ...asked, paramsText };
        const { ready } = this.parts.outlet;
        leave = this.parts.followed!.subscribe(shown, { ...subscriber, ready }, this.parts.tenant);
        if (gone) leave();
      };
      if (isOurs || this.parts.hub === null) return follow();
      const orFollow: Subscriber = {
        ...subscriber,
        // No upstream carries it: then the blocks that the daemon follows.
        refused: (reason) => (gone || !isOfUpstreams(reason, method) ? subscriber.refused(reason) : follow()),
      };
      leave = this.parts.hub.subscribe(call, follows === null ? subscriber : orFollow, this.parts.tenant.id);
      if (gone) leave();
    });
    if (this.own.has(id) && rules === null) this.outcomes.set(key, outcome);
    return outcome;
  }

  /** Before the parameters are parsed. Throws RpcError. */
  private demandSize(method: string, bytes: number): void {
    const isOurs = this.parts.followed?.serves({ method, params: undefined, paramsText: null }) === 'always';
    const most = isOurs ? this.parts.followed!.maxParamsBytes() : this.parts.maxParamsBytes;
    if (bytes <= most) return;
    throw new RpcError('invalidParams', { details: `the parameters of a subscription have at most ${most} bytes` });
  }

  /** Throws GateRefusal when the project has too many. The returned function releases the place. */
  private holdPlace(bytes: number): () => void {
    const place = this.parts.tenant.take('subscriptions', 1);
    let room: Lease | undefined;
    try {
      room = this.parts.tenant.take('subscriptionBytes', bytes);
    } catch (error) {
      place?.release();
      throw error;
    }
    return () => {
      place?.release();
      room?.release();
    };
  }

  private rulesOf(method: string): SocketRules | null {
    return this.parts.followed?.rules({ method: method.replace(/Unsubscribe$/, 'Subscribe') }) ?? null;
  }

  calls(): MessageCalls {
    const held = holdBack(this.parts.outlet, this.parts.maxHeldBytes);
    return {
      price: (method) => {
        const price = this.parts.price(method);
        // Its rules have a rate of their own, with an answer that its clients know.
        return this.rulesOf(method) === null ? price : { product: price.product, credits: price.credits, groups: [] };
      },
      maxAnswerBytes: this.parts.maxHeldBytes,
      admit: (method) => this.ruled.demandMethod(method),
      run: async (call) => {
        const isUnsubscribe = call.method.endsWith('Unsubscribe');
        const rules = this.rulesOf(call.method);
        if (rules !== null) this.ruled.demandTurn(rules);
        if (isUnsubscribe) {
          this.demandSize(call.method, call.paramsText?.length ?? 0);
          return this.unsubscribe(call);
        }
        if (this.ended) throw new RpcError('unavailable');
        if (this.parts.hub === null && (this.parts.followed?.serves(call) ?? null) === null)
          throw new RpcError('methodNotFound', { details: 'no Solana upstream is configured' });
        if (rules === null) return this.subscribe(call, held);
        try {
          return await this.subscribe(call, held);
        } catch (error) {
          // Its clients end a subscription for good on the code of all others.
          if (!(error instanceof GateRefusal)) throw error;
          throw new RpcError('streamRate', { details: error.details ?? 'the project has too many subscriptions' });
        }
      },
      answered: held.release,
    };
  }

  end(): void {
    this.ended = true;
    this.ruled.end();
    const leaving = [...this.own.values()];
    for (const leave of leaving) leave();
  }
}

export const createSubscriptions = (parts: SubscriptionsParts): Subscriptions => new SocketSubscriptions(parts);

/** The subscriptions of a connection that have rules of their own: how many, how often, and when the connection ends. */
function createRuled({ clock, outlet }: Pick<SubscriptionsParts, 'clock' | 'outlet'>) {
  const ids = new Set<number>();
  /** Monotonic milliseconds. */
  let heardAt = clock.monotonic();
  let notifiedAt = heardAt;
  /** Calls that are left, as of a time. */
  let turns = { left: Number.POSITIVE_INFINITY, at: heardAt };
  let cancelWatch: (() => void) | null = null;
  /** Limits and price of the newest subscription. */
  let latest: SocketRules | null = null;

  function watch(rules: SocketRules, all: () => number): void {
    cancelWatch = null;
    if (ids.size === 0) return;
    const now = clock.monotonic();
    const isAlone = all() === ids.size;
    const waits = [notifiedAt + rules.quietMs - now, heardAt + rules.silentMs - now];
    if (isAlone && waits[0]! <= 0) outlet.close(1000, `no match for ${rules.quietMs / 1_000} s`);
    else if (isAlone && waits[1]! <= 0) outlet.close(1000, `no message for ${rules.silentMs / 1_000} s`);
    else {
      const next = isAlone ? Math.min(...waits) : Math.min(rules.quietMs, rules.silentMs);
      cancelWatch = clock.timeout(next, () => watch(rules, all));
    }
  }

  /** Throws RpcError. */
  function demandTurn({ maxCallsPerSecond }: SocketRules): void {
    const now = clock.monotonic();
    const left = Math.min(maxCallsPerSecond, turns.left + ((now - turns.at) * maxCallsPerSecond) / 1_000);
    turns = { left: Math.max(0, left - 1), at: now };
    if (left < 1) throw new RpcError('streamRate', { message: `Rate limited: ${maxCallsPerSecond} calls per second` });
  }

  return {
    heard() {
      heardAt = clock.monotonic();
    },
    demandTurn,
    /** Throws RpcError. */
    demandMethod(method: string): void {
      if (latest?.methods.has(method) === true && ids.size > 0) demandTurn(latest);
    },
    /** Throws RpcError. */
    demandPlace({ maxSubscriptions }: SocketRules): void {
      if (ids.size < maxSubscriptions) return;
      throw new RpcError('streamCount', { message: `at most ${maxSubscriptions} subscriptions per connection` });
    },
    add(id: number, rules: SocketRules, all: () => number): void {
      ids.add(id);
      latest = rules;
      outlet.limitBehind(rules.maxBehind);
      notifiedAt = clock.monotonic();
      if (cancelWatch === null)
        cancelWatch = clock.timeout(Math.min(rules.quietMs, rules.silentMs), () => watch(rules, all));
    },
    remove(id: number): void {
      ids.delete(id);
      if (ids.size === 0) outlet.limitBehind(null);
    },
    notified(): void {
      notifiedAt = clock.monotonic();
    },
    /** Their limits are those of the plan, and their clients know this end. */
    planChanged(): void {
      if (ids.size > 0) outlet.close(1008, 'the plan of the project has changed');
    },
    end: () => cancelWatch?.(),
  };
}

/** Whether the refusal is of the upstreams, and not an answer to the call. */
function isOfUpstreams(reason: Parameters<Subscriber['refused']>[0], method: string): boolean {
  if ('error' in reason) return reason.error.rpcCode !== RPC_CODES.invalidParams.code;
  return !isFinalAnswer(meaningOfErrorText(reason.errorText, method));
}

interface HeldOutlet {
  send(notification: Buffer, credits?: number): void;
  release(): void;
}

/** Holds notifications until they are released, and forwards later ones. */
function holdBack(outlet: Outlet, maxBytes: number): HeldOutlet {
  let waiting: (() => void)[] | null = [];
  let bytes = 0;
  return {
    send(notification, credits) {
      bytes += notification.length;
      if (waiting === null) outlet.send(notification, credits);
      else if (bytes <= maxBytes) waiting.push(() => void outlet.send(notification, credits));
      else outlet.close(1013, 'the service is behind, try again later');
    },
    release() {
      for (const send of waiting ?? []) send();
      waiting = null;
    },
  };
}

function withSubscriptionId(bytes: Buffer, at: Pick<JsonMember, 'start' | 'end'>, id: Buffer): Buffer {
  return Buffer.concat([bytes.subarray(0, at.start), id, bytes.subarray(at.end)]);
}

/** The output to one client: a bounded queue. */
export interface Outlet {
  /** False when the client is too slow or closing; nothing more is sent then. `credits`: its price; absent: that of its bytes. */
  send(message: Buffer | string, credits?: number): boolean;
  /**
   * How many messages may wait for the client. With more, or with more bytes than the queue takes, it is closed with 1008, which its library
   * shows to the user. Null: only the bytes are limited, and it is closed with 1013.
   */
  limitBehind(maxMessages: number | null): void;
  /** Resolves when little waits for the client, or it has gone. */
  ready(): Promise<void>;
  close(code: number, reason: string): void;
  /** Called when the socket has closed. */
  end(): void;
}

/**
 * How long a client has to read its queue and the reason, and to answer the close. It may be busy with what it has read: cut sooner, it would
 * learn nothing but that the connection is gone, and come back for the same.
 */
export const FAREWELL_MS = 60_000;

/** Close code and wait when the daemon stops: its stop waits for it, so the wait is shorter. */
const GOING_AWAY = 1001;
const GOING_AWAY_FAREWELL_MS = 5_000;

/** More does not fit into a close frame. */
const MAX_REASON_BYTES = 123;

/** Bytes that are handed to the socket; what waits behind them can still be dropped. */
const IN_FLIGHT_BYTES = 1_048_576;

/** Smaller messages on an empty queue go to the system at once and hardly ever wait. */
const SMALL_BYTES = 16_384;

/** A replay goes on when fewer bytes wait. */
const READY_BYTES = 524_288;

/** Queued bytes count as answers held by `tenant`. */
export function createOutlet(socket: WebSocket, clock: Clock, maxQueuedBytes: number, tenant: Tenant): Outlet {
  const lease = tenant.take('answerBytes', 0);
  let closing = false;
  const waiting: (() => void)[] = [];
  const queue = new Fifo();
  let behind = 0;
  let maxBehind: number | null = null;
  let cancelFarewell = () => {};

  function close(code: number, reason: string): void {
    if (closing) return;
    for (let message = queue.take(); message !== null; message = queue.take()) sendNow(message);
    leave(code, reason);
  }

  /** Drops what waits, so that the reason comes soon after what the client has still to read. */
  function closeBehind(reason: string): void {
    if (closing) return;
    queue.clear();
    if (maxBehind === null) leave(1013, 'too slow');
    else leave(1008, reason);
  }

  function leave(code: number, reason: string): void {
    closing = true;
    wake();
    socket.close(code, shortReason(reason));
    const farewellMs = code === GOING_AWAY ? GOING_AWAY_FAREWELL_MS : FAREWELL_MS;
    cancelFarewell = clock.timeout(farewellMs, () => socket.terminate());
  }

  const waitingBytes = () => queue.bytes + socket.bufferedAmount;

  function sendNow(message: Buffer | string): void {
    socket.send(message, { binary: false }, sent);
  }

  function pump(): void {
    while (!closing && socket.bufferedAmount < IN_FLIGHT_BYTES) {
      const message = queue.take();
      if (message === null) return;
      sendNow(message);
    }
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

  const isReady = () => closing || socket.readyState !== socket.OPEN || waitingBytes() < READY_BYTES;

  function wake(): void {
    if (waiting.length === 0 || !isReady()) return;
    for (const resolve of waiting.splice(0)) resolve();
  }

  function sent(): void {
    behind -= 1;
    pump();
    wake();
    if (lease !== undefined && waitingBytes() < lease.amount) lease.set(waitingBytes());
  }

  return {
    send(message) {
      if (closing || socket.readyState !== socket.OPEN) return false;
      const queued = waitingBytes();
      if (queued + message.length > maxQueuedBytes || !mayHold(queued, message.length)) {
        closeBehind(`more than ${queued} bytes of notifications behind`);
        return false;
      }
      if (maxBehind !== null && behind >= maxBehind) {
        closeBehind(`more than ${maxBehind} notifications behind`);
        return false;
      }
      behind += 1;
      queue.add(message);
      pump();
      if (lease !== undefined && lease.amount !== waitingBytes()) mayHold(waitingBytes(), 0);
      return true;
    },
    ready: () =>
      new Promise((resolve) => {
        if (isReady()) resolve();
        else waiting.push(resolve);
      }),
    limitBehind(maxMessages) {
      maxBehind = maxMessages;
    },
    close,
    end() {
      closing = true;
      queue.clear();
      wake();
      lease?.release();
      cancelFarewell();
    },
  };
}

/** The start of a text, in whole characters, that fits into a close frame. */
function shortReason(reason: string): string {
  let bytes = 0;
  let short = '';
  for (const character of reason) {
    bytes += Buffer.byteLength(character);
    if (bytes > MAX_REASON_BYTES) return short;
    short += character;
  }
  return short;
}

/** Messages in their order. */
class Fifo {
  /** Bytes of those that wait. */
  bytes = 0;
  #messages: (Buffer | string)[] = [];
  /** Index of the next message to take. */
  #next = 0;

  add(message: Buffer | string): void {
    this.#messages.push(message);
    this.bytes += message.length;
  }

  take(): Buffer | string | null {
    const message = this.#messages[this.#next];
    if (message === undefined) return null;
    this.#next += 1;
    this.bytes -= message.length;
    if (this.#next === this.#messages.length) this.clear();
    return message;
  }

  clear(): void {
    this.#messages = [];
    this.#next = 0;
    this.bytes = 0;
  }
}

/** Output for notifications, which cost credits by their bytes. A client without credits is closed with 1008. */
export function createPaidOutlet(outlet: Outlet, meter: StreamMeter, maxHeldBytes: number): Outlet {
  /** Notifications that wait while credits are charged; null: no charge is in flight. */
  let held: { readonly message: Buffer; readonly credits: number | undefined }[] | null = null;
  let heldBytes = 0;
  const waiting: (() => void)[] = [];
  const priceOf = (message: Buffer | string, credits: number | undefined): readonly [bytes: number, credits: number] =>
    credits === undefined ? [Buffer.byteLength(message), 0] : [0, credits];

  function sendPaid(message: Buffer | string, credits: number | undefined): boolean {
    const isSent = outlet.send(message);
    if (isSent) meter.count(...priceOf(message, credits));
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
    for (const { message, credits } of messages) {
      if (!meter.affords(...priceOf(message, credits))) {
        outlet.close(1008, 'max usage reached');
        return;
      }
      sendPaid(message, credits);
    }
  }

  return {
    ...outlet,
    async ready() {
      if (held !== null) await new Promise<void>((resolve) => waiting.push(resolve));
      await outlet.ready();
    },
    send(message, credits) {
      if (held === null && meter.affords(...priceOf(message, credits))) return sendPaid(message, credits);
      const bytes = Buffer.from(message);
      heldBytes += bytes.length;
      if (heldBytes > maxHeldBytes) {
        outlet.close(1013, 'credits cannot be counted in time, try again later');
        return false;
      }
      if (held !== null) {
        held.push({ message: bytes, credits });
        return true;
      }
      held = [{ message: bytes, credits }];
      void sendHeld();
      return true;
    },
  };
}
