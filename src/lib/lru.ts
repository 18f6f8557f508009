import { LRUCache } from 'lru-cache';

/**
 * An LRU cache that allocates memory as it fills. With the option `max`, the library would allocate all of it at creation, in each thread,
 * even for caches that stay empty. Each entry counts as 1, or as its `sizeCalculation`.
 */
export function createLru<K extends {}, V extends {}>({
  max,
  sizeCalculation = () => 1,
  ...options
}: LRUCache.Options<K, V, unknown> & { readonly max: number }): LRUCache<K, V> {
  return new LRUCache<K, V>({ ...options, maxSize: max, sizeCalculation });
}
