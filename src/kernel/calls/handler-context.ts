import type { Caller } from '../../ports/access.ts';
import type { Log } from '../../ports/log.ts';
import type { CallContext } from '../request.ts';

/** What a handler sees of its call: the context's log and signal, passed through without being made. */
export class HandlerContext implements CallContext {
  readonly requestId: string;
  readonly caller: Caller | null;
  readonly remoteAddress: string;
  readonly #outer: CallContext;
  readonly #own: { readonly signal: AbortSignal };

  /** `own` gives the signal where a call has a shorter one than its request. */
  constructor(outer: CallContext, own: { readonly signal: AbortSignal } = outer) {
    this.requestId = outer.requestId;
    this.caller = outer.caller;
    this.remoteAddress = outer.remoteAddress;
    this.#outer = outer;
    this.#own = own;
  }

  get log(): Log {
    return this.#outer.log;
  }

  get signal(): AbortSignal {
    return this.#own.signal;
  }
}
