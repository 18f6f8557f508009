/** An AbortSignal that costs nothing until somebody looks at it: most handlers never do. */
export interface LazySignal {
  readonly signal: AbortSignal;
  abort(reason: Error): void;
  /** Lets go of the parent. */
  release(): void;
}

/** `parent` is looked at only when the signal itself is. */
export function createLazySignal(parent?: { readonly signal: AbortSignal }): LazySignal {
  let controller: AbortController | null = null;
  let reason: Error | null = null;
  let unlink: (() => void) | null = null;

  const open = (): AbortController => {
    if (controller !== null) return controller;
    const opened = new AbortController();
    controller = opened;
    if (reason !== null) opened.abort(reason);
    else if (parent !== undefined) {
      const outer = parent.signal;
      const follow = () => opened.abort(outer.reason);
      if (outer.aborted) follow();
      else {
        outer.addEventListener('abort', follow, { once: true });
        unlink = () => outer.removeEventListener('abort', follow);
      }
    }
    return opened;
  };

  return {
    get signal() {
      return open().signal;
    },
    abort: (why) => {
      if (reason !== null) return;
      reason = why;
      controller?.abort(why);
    },
    release: () => {
      unlink?.();
      unlink = null;
    },
  };
}
