import { setMaxListeners } from 'node:events';
import type { OpenableSignal } from '../ports/upstream.ts';

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
export class LazySignal implements OpenableSignal {
  readonly #parent: { readonly signal: AbortSignal } | null;
  #controller: AbortController | null = null;
  #reason: string | null = null;
  #unlink: (() => void) | null = null;
  /** The only listener, as most calls have it, or all of several. */
  #listener: (() => void) | Set<() => void> | null = null;

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
    if (listener instanceof Set) for (const one of listener) one();
    else listener?.();
  }

  get aborted(): boolean {
    return this.#parent === null ? this.#reason !== null : this.signal.aborted;
  }

  get reason(): unknown {
    return this.aborted ? this.signal.reason : undefined;
  }

  /** Without a parent, listeners need no signal. */
  addEventListener(type: 'abort', listener: () => void): void {
    const known = this.#listener;
    if (this.#parent !== null) this.signal.addEventListener(type, listener, { once: true });
    else if (this.#reason !== null || known === listener) return;
    else if (known === null) this.#listener = listener;
    else if (known instanceof Set) known.add(listener);
    else this.#listener = new Set([known, listener]);
  }

  removeEventListener(type: 'abort', listener: () => void): void {
    if (this.#listener === listener) this.#listener = null;
    else if (this.#listener instanceof Set) this.#listener.delete(listener);
    else if (this.#parent !== null) this.#controller?.signal.removeEventListener(type, listener);
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
