import type { IncomingMessage, ServerResponse } from 'node:http';
import type { InBag } from '../../lib/bag.ts';
import type { Caller } from '../../ports/access.ts';
import type { Log } from '../../ports/log.ts';
import type { Span } from '../../ports/tracing.ts';
import { LazySignal } from '../calls/lazy-signal.ts';
import type { Admission, CallContext, ErrorShape } from '../plugin.ts';
import type { RouteMeter } from './meter.ts';
import type { Target } from './target.ts';

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
  /** JSON-RPC method or batch size, for the log line. */
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
  /** Bytes of its body that count against those of all bodies. */
  bodyBytes = 0;
  status = 0;
  bytesOut = 0;
  /** Stops the handler's deadline. */
  cancelDeadline: (() => void) | null = null;
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
    this.#rootLog = init.log;
  }

  /** Made when first asked for: most requests write nothing but their one line. */
  get log(): Log {
    this.#log ??= this.#rootLog.child({ requestId: this.requestId });
    return this.#log;
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
}
