import { LRUCache } from 'lru-cache';
import type { Metrics } from '../../../src/plugin/plugin.ts';
import { type CacheEntry, type DiskCache, TEXT_BYTES } from './disk-cache.ts';

/** Where an answer is kept: in memory always, on disk when the chain can not start anew under the same genesis hash. */
export interface CacheKey {
  readonly memory: string;
  readonly disk: string | null;
}

export interface AnswerCache {
  /** At once, from memory. */
  peek(key: CacheKey): CacheEntry | null;
  /** From disk; what is found moves into memory. */
  load(key: CacheKey): Promise<CacheEntry | null>;
  put(key: CacheKey, entry: CacheEntry): void;
}

export interface AnswerCacheParts {
  readonly memoryBytes: number;
  readonly maxEntryBytes: number;
  /** Null while there is none. */
  readonly disk: () => DiskCache | null;
  readonly metrics: Metrics;
}

/** What an entry costs beside its bytes and key, about. */
const ENTRY_OVERHEAD_BYTES = 256;

export function createAnswerCache(parts: AnswerCacheParts): AnswerCache {
  const memory = new LRUCache<string, CacheEntry>({
    maxSize: parts.memoryBytes,
    maxEntrySize: Math.min(parts.memoryBytes, parts.maxEntryBytes + 65_536),
    sizeCalculation: (entry, key) => sizeOf(entry) + key.length * 2 + ENTRY_OVERHEAD_BYTES,
  });
  const hits = parts.metrics.counter('cache_hits_total', 'answers from the cache', ['tier']);
  const fromMemory = hits.with('memory');
  const fromDisk = hits.with('disk');
  const misses = parts.metrics.counter('cache_misses_total', 'cacheable calls that went upstream');
  parts.metrics.observe('cache_memory_bytes', 'size of the memory cache', () => memory.calculatedSize);

  return {
    peek(key) {
      const entry = memory.get(key.memory) ?? null;
      if (entry !== null) fromMemory.add();
      return entry;
    },
    async load(key) {
      const disk = key.disk === null ? null : parts.disk();
      const entry = disk === null ? null : await disk.get(key.disk!);
      if (entry === null) {
        misses.add();
        return null;
      }
      fromDisk.add();
      memory.set(key.memory, entry);
      return entry;
    },
    put(key, entry) {
      if (entry.bytes.length > parts.maxEntryBytes) return;
      memory.set(key.memory, entry);
      if (key.disk !== null) parts.disk()?.put(key.disk, entry);
    },
  };
}

/** Small answers may be kept as text too. */
function sizeOf({ bytes: { length } }: CacheEntry): number {
  return length > TEXT_BYTES ? length : 2 * length;
}
