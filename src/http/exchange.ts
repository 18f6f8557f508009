import type { IncomingMessage, ServerResponse } from 'node:http';
import type { BudgetLedger } from '../budgets.ts';
import type { InBag } from '../lib/bag.ts';
import type { Admission } from '../plugin/host.ts';
import type { CallContext, ErrorShape } from '../plugin/plugin.ts';
import type { Caller, Tenant } from '../ports/access.ts';
import type { Log } from '../ports/log.ts';
import type { Span } from '../ports/tracing.ts';
import { LazySignal } from './lazy-signal.ts';
import type { RouteMeter } from './meter.ts';
import { parseQuery } from './query.ts';
import type { Target } from './router.ts';

/** One request on its way through the pipeline, and the context that its handler gets. A class for the sake of its accessors. */
export class Exchange implements CallContext, InBag {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly target: Target;
  readonly requestId: string;
  readonly remoteAddress: string;
  /** Monotonic milliseconds. */
  readonly startedMs: number;
  /** The client waits for `100 Continue` before it sends its body. */
  readonly expectsContinue: boolean;
  readonly lazy = new LazySignal();
  caller: Caller | null = null;
  shape: ErrorShape = 'plain';
  /** Route pattern; `-` where none matched. */
  route = '-';
  meter: RouteMeter | null = null;
  /** What a tracer knows it by. */
  span: Span | null = null;
  /** JSON-RPC method or batch size without keys, for the log line. */
  rpcLabel: string | undefined = undefined;
  admission: Admission | null = null;
  #settle: ((bytesOut: number) => void) | null = null;
  /** The request has ended: nobody will ask for `settle` again. */
  #isSettled = false;
  /** An answer has been begun; nothing else may be written. */
  over = false;
  /** Among the requests that are being handled. */
  place = -1;
  /** Counts against the requests that are handled at once. */
  busy = false;
  /** Bytes of its body that count against those of its tenant and of all bodies. */
  bodyBytes = 0;
  status = 0;
  /** The call costs what it costs whatever its status is. */
  isCharged = false;
  bytesOut = 0;
  /** Raw JSON of the id of its call, for an answer that is refused when it is made; null where it is no call. */
  rpcId: (() => string) | null = null;
  #holder: Tenant | undefined = undefined;
  #answerBytes = 0;
  #gaveBack = false;
  /** Stops the handler's deadline. */
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

  get tenant(): Tenant | undefined {
    return this.#budgets?.tenantOf(this.caller, this.remoteAddress);
  }

  /** Made when first asked for: most requests write nothing but their one line. */
  get log(): Log {
    this.#log ??= this.#rootLog.child({ requestId: this.requestId });
    return this.#log;
  }

  /** Counts bytes that its body has brought against the tenant's. Throws GateRefusal. */
  holdBody(bytes: number): void {
    if (this.#gaveBack) return;
    this.#holder ??= this.tenant;
    this.#holder?.hold('requestBytes', bytes);
    this.bodyBytes += bytes;
  }

  /** Counts an answer, from when it is made until the client has taken it. Throws GateRefusal. */
  holdAnswer(bytes: number): void {
    if (this.#gaveBack) return;
    this.#holder ??= this.tenant;
    if (bytes > this.#answerBytes) this.#holder?.hold('answerBytes', bytes - this.#answerBytes);
    else this.#holder?.give('answerBytes', this.#answerBytes - bytes);
    this.#answerBytes = bytes;
  }

  /** The request has ended: it holds nothing more. */
  giveBack(): void {
    this.#gaveBack = true;
    this.#holder?.give('requestBytes', this.bodyBytes);
    this.#holder?.give('answerBytes', this.#answerBytes);
    this.bodyBytes = 0;
    this.#answerBytes = 0;
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

  /** Called once with the bytes that went out; at once when the client has gone before the gate or the call had answered. */
  onSettle(settle: (bytesOut: number) => void): void {
    if (this.#isSettled) settle(this.bytesOut);
    else this.#settle = settle;
  }

  settle(): void {
    if (this.#isSettled) return;
    this.#isSettled = true;
    this.#settle?.(this.bytesOut);
  }
}

export interface ExchangeInit {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly target: Target;
  readonly requestId: string;
  readonly remoteAddress: string;
  readonly startedMs: number;
  readonly expectsContinue: boolean;
  readonly log: Log;
  /** Null where nobody counts. */
  readonly budgets?: BudgetLedger | null;
}
