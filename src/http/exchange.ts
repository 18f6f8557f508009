import type { IncomingMessage, ServerResponse } from 'node:http';
import type { BudgetLedger } from '../budgets.ts';
import { Bag, type InBag } from '../lib/bag.ts';
import type { Admission, CallPayment } from '../plugin/host.ts';
import type { CallContext, ErrorShape } from '../plugin/plugin.ts';
import { type Caller, OWN_WORK, type Tenant } from '../ports/access.ts';
import type { Tapping } from '../ports/answer-tap.ts';
import type { RequestContent } from '../ports/daemon-view.ts';
import type { Counter, Gauge, Log, Span } from '../ports/telemetry.ts';
import type { CallSignal } from '../ports/upstream.ts';
import { LazySignal } from '../runtime/lazy-signal.ts';
import { noRoom } from './body.ts';
import type { RouteMeter } from './meter.ts';
import { parseQuery } from './query.ts';
import type { RequestTarget } from './router.ts';

/** Characters that are kept of an answer that tells of a failure. */
const FAILURE_CHARS = 2_048;

/** nginx's status for a client that disconnected. */
export const CLIENT_LEFT = 499;

/** One request in the pipeline, and the context of its handler. A class because of its accessors. */
export class Exchange implements CallContext, InBag, RequestContent {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly target: RequestTarget;
  readonly requestId: string;
  readonly remoteAddress: string;
  /** Monotonic milliseconds. */
  readonly startedMs: number;
  /** The client waits for `100 Continue` before it sends the body. */
  readonly expectsContinue: boolean;
  readonly lazy = new LazySignal();
  caller: Caller | null = null;
  shape: ErrorShape = 'plain';
  /** Route pattern; `-` if none matched. */
  route = '-';
  meter: RouteMeter | null = null;
  /** Span of the request. */
  span: Span | null = null;
  /** JSON-RPC method or batch size for the log line, with keys masked. */
  rpcLabel: string | undefined = undefined;
  /** JSON-RPC calls of it that were answered with an error. */
  rpcFailed = 0;
  /** The body, once it was read; null: there is none. */
  body: Buffer | null = null;
  /** The first characters of an answer that tells of a failure. */
  failure: string | null = null;
  /** The answer ended before it was complete, after its head was sent. */
  isBroken = false;
  admission: Admission | null = null;
  /** What the caller has paid for this request; null: it has a key, or needs none. */
  payment: CallPayment | null = null;
  /** Its answer is compared; null: it is not, or has been handed over. */
  tapping: Tapping | null = null;
  #charge: Chargeable | null = null;
  /** Credits that `chargeNow` has charged. */
  #paid = 0;
  /** The request has ended: `#charge` will not be used again. */
  #hasEnded = false;
  /** An answer was started; nothing else may be written. */
  over = false;
  /** Counted among the requests in flight. */
  place = -1;
  /** Counted against `http.maxInFlight`. */
  busy = false;
  /** Body bytes counted against the limits of the tenant and of all bodies. */
  bodyBytes = 0;
  status = 0;
  /** The call is charged whatever its status is. */
  isCharged = false;
  /** What the answer costs, if that is less than the price of the route. */
  ownCredits: number | undefined = undefined;
  bytesOut = 0;
  /** Credits that the request cost; set by `end`. */
  credits = 0;
  /** Raw JSON of the call id, for an answer that is refused for its size; null if the request is not a JSON-RPC call. */
  rpcId: (() => string) | null = null;
  #holder: Tenant | undefined = undefined;
  #answerBytes = 0;
  #gaveBack = false;
  /** Cancels the deadline of the handler. */
  cancelDeadline: (() => void) | null = null;
  readonly #budgets: BudgetLedger | null;
  readonly #rootLog: Log;
  #log: Log | null = null;

  constructor(init: ExchangeInit) {
    this.request = init.request;
    this.response = init.response;
    this.target = init.target;
    this.requestId = init.requestId;
    this.remoteAddress = init.remoteAddress;
    this.startedMs = init.startedMs;
    this.expectsContinue = init.expectsContinue;
    this.#budgets = init.budgets ?? null;
    this.#rootLog = init.log;
  }

  get host(): string | undefined {
    return this.request.headers.host;
  }

  get path(): string {
    return this.target.path;
  }

  get query(): string {
    return this.target.query;
  }

  get tenant(): Tenant {
    return this.#budgets?.tenantOf(this.caller, this.remoteAddress) ?? OWN_WORK;
  }

  /** Created on first use: most requests write only their one log line. */
  get log(): Log {
    this.#log ??= this.#rootLog.child({ requestId: this.requestId });
    return this.#log;
  }

  /** Counts received body bytes against the budget of the tenant. Throws GateRefusal. */
  holdBody(bytes: number): void {
    if (this.#gaveBack) return;
    this.#holder ??= this.tenant;
    this.#holder.hold('requestBytes', bytes);
    this.bodyBytes += bytes;
  }

  /** Counts an answer from its creation until the client has read it. Throws GateRefusal. */
  holdAnswer(bytes: number): void {
    if (this.#gaveBack) return;
    this.#holder ??= this.tenant;
    if (bytes > this.#answerBytes) this.#holder.hold('answerBytes', bytes - this.#answerBytes);
    else this.#holder.give('answerBytes', this.#answerBytes - bytes);
    this.#answerBytes = bytes;
  }

  /** Releases all budgets at the end of the request. */
  giveBack(): void {
    this.#gaveBack = true;
    this.#holder?.give('requestBytes', this.bodyBytes);
    this.#holder?.give('answerBytes', this.#answerBytes);
    this.bodyBytes = 0;
    this.#answerBytes = 0;
  }

  /** Keeps the beginning of an answer that tells of a failure; not of a stream, which is not here yet. */
  noteFailure(body: unknown): void {
    if (typeof body === 'string') this.failure = body.slice(0, FAILURE_CHARS);
    else if (Buffer.isBuffer(body)) this.failure = body.toString('utf8', 0, FAILURE_CHARS);
  }

  requestHeader(name: string): string | undefined {
    const value = this.request.headers[name];
    return Array.isArray(value) ? value[0] : value;
  }

  requestQuery(name: string): readonly string[] {
    const { query } = this.target;
    return query === '' ? [] : parseQuery(query).flatMap(([other, value]) => (other === name ? [value] : []));
  }

  get signal(): AbortSignal {
    return this.lazy.signal;
  }

  get stop(): CallSignal {
    return this.lazy;
  }

  /** Charged once, when the sent bytes are known; at once if the client disconnected before. */
  onEnd(charge: Chargeable): void {
    if (!this.#hasEnded) this.#charge = charge;
    else if (this.payment === null) this.credits = charge.charge(this.bytesOut);
    else charge.drop();
  }

  /** Whether the answer, whose status is known, will be charged. */
  isDue(): boolean {
    return this.#charge?.isDue() ?? false;
  }

  /** Charges before the answer is sent. */
  chargeNow(): void {
    const charge = this.#charge;
    this.#charge = null;
    this.#paid = charge?.charge(0) ?? 0;
  }

  end(): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.credits = this.#paid;
    if (this.payment === null) this.credits = this.#charge?.charge(this.bytesOut) ?? 0;
    // What was paid for one by one was charged before the answer was sent, or not at all.
    else this.#charge?.drop();
    this.payment?.end(this.status === CLIENT_LEFT);
  }
}

/** What a request costs its caller. */
export interface Chargeable {
  /** Returns the credits charged. */
  charge(bytesOut: number): number;
  /** Whether anything would be charged. */
  isDue(): boolean;
  /** Ends it without a charge. */
  drop(): void;
}

export interface ExchangeInit {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly target: RequestTarget;
  readonly requestId: string;
  readonly remoteAddress: string;
  readonly startedMs: number;
  readonly expectsContinue: boolean;
  readonly log: Log;
  /** Null if budgets are not counted. */
  readonly budgets?: BudgetLedger | null;
}

/** The requests in flight. */
export interface InFlight {
  readonly count: number;
  /** Busy requests: their body has arrived and their answer is not ready. */
  readonly busy: number;
  /** Requests since the start. */
  readonly total: number;
  /** Bytes of bodies that are being received, or belong to requests in flight. */
  readonly bodyBytes: number;
  /** Counts received body bytes. Throws RequestError 503 or GateRefusal, and counts nothing, if they exceed a limit. */
  takeBytes(exchange: Exchange, bytes: number): void;
  enter(exchange: Exchange): void;
  leave(exchange: Exchange): void;
  /** Sets whether a request is busy; initially it is. Waiting for a slow client is not busy. */
  setBusy(exchange: Exchange, busy: boolean): void;
  /** Aborts the signals of all requests. */
  abortAll(reason: string): void;
  /** Resolves when no request is left, or when the signal aborts. */
  idle(signal: AbortSignal): Promise<void>;
}

export function createInFlight(gauge: Gauge, maxBodyBytes: () => number, refused: Counter): InFlight {
  const exchanges = new Bag<Exchange>();
  const waiters = new Set<() => void>();
  let total = 0;
  let busyCount = 0;
  let bodyBytes = 0;
  const setBusy = (exchange: Exchange, busy: boolean) => {
    if (exchange.busy === busy || (busy && exchange.place < 0)) return;
    exchange.busy = busy;
    busyCount += busy ? 1 : -1;
  };
  return {
    get busy() {
      return busyCount;
    },
    setBusy,
    get count() {
      return exchanges.size;
    },
    get total() {
      return total;
    },
    get bodyBytes() {
      return bodyBytes;
    },
    takeBytes: (exchange, bytes) => {
      // Bytes that arrive after the end would never be released.
      if (exchange.place < 0) return;
      try {
        // Without budgets per project, one limit applies to all bodies.
        if (exchange.tenant === OWN_WORK && bodyBytes + bytes > maxBodyBytes()) throw noRoom();
        exchange.holdBody(bytes);
      } catch (error) {
        refused.add();
        throw error;
      }
      bodyBytes += bytes;
    },
    enter: (exchange) => {
      total += 1;
      exchanges.add(exchange);
      setBusy(exchange, true);
      gauge.set(exchanges.size);
    },
    leave: (exchange) => {
      exchanges.remove(exchange);
      bodyBytes -= exchange.bodyBytes;
      exchange.giveBack();
      setBusy(exchange, false);
      gauge.set(exchanges.size);
      if (exchanges.size === 0) for (const wake of waiters) wake();
    },
    abortAll: (reason) => {
      for (const exchange of exchanges.all()) exchange.lazy.abort(reason);
    },
    idle: (signal) => {
      if (exchanges.size === 0 || signal.aborted) return Promise.resolve();
      return new Promise((resolve) => {
        const wake = () => {
          waiters.delete(wake);
          signal.removeEventListener('abort', wake);
          resolve();
        };
        waiters.add(wake);
        signal.addEventListener('abort', wake, { once: true });
      });
    },
  };
}
