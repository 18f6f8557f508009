import type { CallContext } from '../plugin/request.ts';
import { assignTenant, type Caller, type Tenant } from '../ports/access.ts';
import type { InjectedCall } from '../ports/daemon-view.ts';
import type { Log } from '../ports/telemetry.ts';
import type { CallSignal } from '../ports/upstream.ts';

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

/** The context of a call from inside the daemon. */
export class InjectedContext implements CallContext {
  readonly requestId: string;
  readonly caller: Caller | null;
  readonly remoteAddress: string;
  readonly tenant: Tenant;
  readonly stop: InjectedCall['signal'];
  readonly #call: InjectedCall;

  constructor(call: InjectedCall, caller: Caller | null, tenant: Tenant) {
    this.requestId = call.requestId;
    this.caller = caller;
    this.remoteAddress = call.remoteAddress;
    this.tenant = tenant;
    this.stop = call.signal;
    this.#call = call;
  }

  get log(): Log {
    return this.#call.log;
  }

  get signal(): AbortSignal {
    return 'signal' in this.stop ? this.stop.signal : this.stop;
  }
}
