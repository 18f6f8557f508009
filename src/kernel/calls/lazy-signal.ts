/**
 * An AbortSignal that costs nothing until somebody looks at it: most handlers never do. A class, because an accessor on a
 * prototype is free where one in an object literal is made anew for every request.
 */
export class LazySignal {
  readonly #parent: { readonly signal: AbortSignal } | null;
  #controller: AbortController | null = null;
  #reason: string | null = null;
  #unlink: (() => void) | null = null;

  /** `parent` is looked at only when the signal itself is. */
  constructor(parent: { readonly signal: AbortSignal } | null = null) {
    this.#parent = parent;
  }

  get signal(): AbortSignal {
    return (this.#controller ?? this.#open()).signal;
  }

  /** Aborts once; the error is made only when somebody listens, for its stack is the dear part. */
  abort(reason: string): void {
    if (this.#reason !== null) return;
    this.#reason = reason;
    this.#controller?.abort(new Error(reason));
  }

  /** Lets go of the parent. */
  release(): void {
    this.#unlink?.();
    this.#unlink = null;
  }

  #open(): AbortController {
    const opened = new AbortController();
    this.#controller = opened;
    if (this.#reason !== null) opened.abort(new Error(this.#reason));
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
