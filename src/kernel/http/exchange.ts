import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Caller } from '../../ports/access.ts';
import type { Log } from '../../ports/log.ts';
import { createLazySignal, type LazySignal } from '../lazy-signal.ts';
import type { Admission, CallContext, ErrorShape } from '../plugin.ts';
import type { RouteMeter } from './meter.ts';
import type { Target } from './target.ts';

/** One request on its way through the pipeline, and the context that its handler gets. */
export interface Exchange extends CallContext {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly target: Target;
  /** Monotonic milliseconds. */
  readonly startedMs: number;
  readonly lazy: LazySignal;
  /** The client waits for `100 Continue` before it sends its body. */
  readonly expectsContinue: boolean;
  caller: Caller | null;
  shape: ErrorShape;
  /** Route pattern; `-` where none matched. */
  route: string;
  meter: RouteMeter | null;
  /** JSON-RPC method or batch size, for the log line. */
  rpcLabel: string | undefined;
  admission: Admission | null;
  /** Told once when the bytes are out. */
  settle: ((bytesOut: number) => void) | null;
  /** An answer has been begun; nothing else may be written. */
  over: boolean;
  status: number;
  bytesOut: number;
  /** Stops the handler's deadline. */
  cancelDeadline: (() => void) | null;
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

export function createExchange(init: ExchangeInit): Exchange {
  const lazy = createLazySignal();
  let log: Log | null = null;
  return {
    request: init.request,
    response: init.response,
    target: init.target,
    requestId: init.requestId,
    remoteAddress: init.remoteAddress,
    startedMs: init.startedMs,
    expectsContinue: init.expectsContinue,
    lazy,
    // Made when first asked for: most requests write nothing but their one line.
    get log() {
      log ??= init.log.child({ requestId: init.requestId });
      return log;
    },
    get signal() {
      return lazy.signal;
    },
    caller: null,
    shape: 'plain',
    route: '-',
    meter: null,
    rpcLabel: undefined,
    admission: null,
    settle: null,
    over: false,
    status: 0,
    bytesOut: 0,
    cancelDeadline: null,
  };
}
