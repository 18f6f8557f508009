import { CodedError } from '../lib/coded-error.ts';
import type { Store } from '../ports/store.ts';

/** A value that exists only after provisioning, such as the store. It is set once. */
export interface Late<T> {
  /** Errors: PLUGIN_TOO_EARLY. */
  get(): T;
  isSet(): boolean;
  set(value: T): void;
  /** Calls `fn` once the value is there, at once if it is. The returned function takes the wish back. */
  whenSet(fn: (value: T) => void): () => void;
}

export function createLate<T>(name: string): Late<T> {
  const waiting = new Set<(value: T) => void>();
  let held: { readonly value: T } | null = null;
  return {
    get() {
      if (held === null) {
        throw new CodedError('PLUGIN_TOO_EARLY', `${name} is there from start on, not while plugins are provisioned`);
      }
      return held.value;
    },
    isSet: () => held !== null,
    set(value) {
      held = { value };
      for (const fn of waiting) fn(value);
      waiting.clear();
    },
    whenSet(fn) {
      if (held === null) waiting.add(fn);
      else fn(held.value);
      return () => void waiting.delete(fn);
    },
  };
}

/** A store that plugins can hold on to before it is open. */
export function createLateStore(store: Late<Store>): Store {
  return {
    get dialect() {
      return store.get().dialect;
    },
    get read() {
      return store.get().read;
    },
    version: () => store.get().version(),
    write: (work) => store.get().write(work),
    probe: () => store.get().probe(),
    close: () => Promise.reject(new CodedError('PLUGIN_SERVICE', 'the store is closed by the kernel alone')),
  };
}
