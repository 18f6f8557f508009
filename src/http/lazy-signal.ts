import { setMaxListeners } from 'node:events';
import type { CallContext } from '../plugin/request.ts';
import { assignTenant, type Caller, type Tenant } from '../ports/access.ts';
import type { Log } from '../ports/telemetry.ts';
import type { CallSignal } from '../ports/upstream.ts';

/** The abort reason of a call: its deadline passed, or its client disconnected. Handlers may rethrow it; it needs no log line. */
class CallAborted extends Error {
  constructor(reason: string) {
    super(reason);
    this.name = 'CallAborted';
  }
}

/** Whether an error is the abort of its call or was caused by it. */
export function isCallAborted(error: unknown): boolean {
  for (let one = error; one instanceof Error; one = one.cause) if (one instanceof CallAborted) return true;
  return false;
}

/**
 * An AbortSignal that is created only on first use: most handlers never use it. A class, because an accessor on a prototype is free,
 * while one in an object literal is created for every request.
 */
export class LazySignal implements CallSignal {
  readonly #parent: { readonly signal: AbortSignal } | null;
  #controller: AbortController | null = null;
  #reason: string | null = null;
  #unlink: (() => void) | null = null;
  #listener: (() => void) | null = null;

  /** `parent` is read only when the signal itself is. */
  constructor(parent: { readonly signal: AbortSignal } | null = null) {
    this.#parent = parent;
  }

  get signal(): AbortSignal {
    return (this.#controller ?? this.#open()).signal;
  }

  /** Aborts once; the error is created only if the signal is in use, because its stack trace is expensive. */
  abort(reason: string): void {
    if (this.#reason !== null) return;
    this.#reason = reason;
    this.#controller?.abort(new CallAborted(reason));
    const listener = this.#listener;
    this.#listener = null;
    listener?.();
  }

  get aborted(): boolean {
    return this.#parent === null ? this.#reason !== null : this.signal.aborted;
  }

  get reason(): unknown {
    return this.aborted ? this.signal.reason : undefined;
  }

  /** The first listener needs no signal: most calls that are passed on have one. */
  addEventListener(type: 'abort', listener: () => void): void {
    if (this.#listener === listener) return;
    if (this.#parent === null && this.#listener === null && this.#controller === null) this.#listener = listener;
    else this.signal.addEventListener(type, listener, { once: true });
  }

  removeEventListener(type: 'abort', listener: () => void): void {
    if (this.#listener === listener) this.#listener = null;
    else this.#controller?.signal.removeEventListener(type, listener);
  }

  /** Detaches from the parent. */
  release(): void {
    this.#unlink?.();
    this.#unlink = null;
  }

  #open(): AbortController {
    const opened = new AbortController();
    // Each call of a batch adds a listener.
    setMaxListeners(0, opened.signal);
    this.#controller = opened;
    if (this.#reason !== null) opened.abort(new CallAborted(this.#reason));
    else if (this.#parent !== null) {
      const outer = this.#parent.signal;
      const follow = () => opened.abort(outer.reason);
      if (outer.aborted) follow();
      else {
        outer.addEventListener('abort', follow, { once: true });
        this.#unlink = () => outer.removeEventListener('abort', follow);
      }
    }
    return opened;
  }
}

/** The context of a handler: log and signal are passed through lazily. */
export class HandlerContext implements CallContext {
  readonly requestId: string;
  readonly caller: Caller | null;
  readonly remoteAddress: string;
  readonly #outer: CallContext;
  readonly #own: { readonly signal: AbortSignal; readonly stop?: CallSignal };

  /** `own` returns the signal of a call whose deadline is shorter than that of its request. */
  constructor(outer: CallContext, own: { readonly signal: AbortSignal } = outer) {
    this.requestId = outer.requestId;
    this.caller = outer.caller;
    this.remoteAddress = outer.remoteAddress;
    this.#outer = outer;
    this.#own = own;
  }

  get tenant(): Tenant {
    return this.#outer.tenant;
  }

  get log(): Log {
    return this.#outer.log;
  }

  get requestHeader(): CallContext['requestHeader'] {
    return this.#outer.requestHeader?.bind(this.#outer);
  }

  get requestQuery(): CallContext['requestQuery'] {
    return this.#outer.requestQuery?.bind(this.#outer);
  }

  get stop(): CallSignal {
    return this.#own.stop ?? this.signal;
  }

  get signal(): AbortSignal {
    const { signal } = this.#own;
    assignTenant(signal, this.#outer.tenant);
    return signal;
  }
}
