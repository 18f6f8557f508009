import { LRUCache } from 'lru-cache';

/**
 * A cache with a number of entries that takes room as it fills. One that is given its `max` takes all its room when it is made, in each
 * thread, also where nothing is ever put in.
 */
export function createLru<K extends {}, V extends {}>({
  max,
  ...options
}: LRUCache.Options<K, V, unknown> & { readonly max: number }): LRUCache<K, V> {
  return new LRUCache<K, V>({ ...options, maxSize: max, sizeCalculation: () => 1 });
}

/** A value that is made on first use, so that importing a module does no work. */
export function lazy<T>(make: () => T): () => T {
  let made: { readonly value: T } | undefined;
  return () => {
    made ??= { value: make() };
    return made.value;
  };
}
