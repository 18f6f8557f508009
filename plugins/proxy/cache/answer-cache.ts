import { isAscii } from 'node:buffer';
import { createHash } from 'node:crypto';
import { mkdir, readdir, readFile, rename, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { LRUCache } from 'lru-cache';
import { isNull, type RpcReplyParts } from '../../../src/lib/json-rpc.ts';
import { type Clock, codeOf, type Log, type Metrics, type Random } from '../../../src/plugin/plugin.ts';

/** Where an answer is cached: always in memory; on disk unless the chain can restart under the same genesis hash. */
export interface CacheKey {
  readonly memory: string;
  readonly disk: string | null;
}

export interface AnswerCache {
  /** Synchronous, from memory. */
  peek(key: CacheKey): CacheEntry | null;
  /** From disk; a hit moves into memory. */
  load(key: CacheKey): Promise<CacheEntry | null>;
  put(key: CacheKey, entry: CacheEntry): void;
}

export interface AnswerCacheParts {
  readonly memoryBytes: number;
  readonly maxEntryBytes: number;
  /** Null without a disk cache. */
  readonly disk: () => DiskCache | null;
  readonly metrics: Metrics;
}

/** Estimated overhead of an entry. */
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

/** Small answers may also be cached as text. */
function sizeOf({ bytes: { length } }: CacheEntry): number {
  return length > TEXT_BYTES ? length : 2 * length;
}

interface DiskCacheParts {
  readonly dir: string;
  /** Files count in whole file system blocks. */
  readonly maxBytes: number;
  /** Bytes that may wait to be written. */
  readonly pendingBytes: number;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
}

/** A cache of files that survives a crash: an incomplete file is not read. Never throws: a disk failure is a miss. */
export interface DiskCache {
  get(key: string): Promise<CacheEntry | null>;
  /** Starts the write and returns; skipped when too many bytes wait. */
  put(key: string, entry: CacheEntry): void;
  /** Resolves when no write waits. */
  idle(): Promise<void>;
}

const BLOCK_BYTES = 4096;
const SHARDS = '0123456789abcdef';
/** A shard above its limit is reduced to this fraction, least recently used first, so that not every write lists it. */
const KEEP_PART = 0.75;
/** A temporary file of this age was left by a process that ended. */
const STALE_TEMP_MS = 3_600_000;

export function createDiskCache(parts: DiskCacheParts): DiskCache {
  const { dir, log, clock } = parts;
  const shardBytes = Math.floor(parts.maxBytes / SHARDS.length);
  /** Bytes of each shard written to since the start; other processes make them inexact until the next listing. */
  const sizes = new Map<string, number>();
  let waiting: Promise<void> = Promise.resolve();
  let waitingBytes = 0;

  const place = (key: string) => {
    const name = createHash('sha256').update(key).digest('hex');
    return { folder: join(dir, name[0]!), shard: name[0]!, path: join(dir, name[0]!, name.slice(1)) };
  };

  async function get(key: string): Promise<CacheEntry | null> {
    const { path } = place(key);
    try {
      const entry = decodeEntry(key, await readFile(path));
      const now = clock.now() / 1000;
      await (entry === null ? rm(path, { force: true }) : utimes(path, now, now));
      return entry;
    } catch (error) {
      if (codeOf(error) !== 'ENOENT') log.warn({ code: codeOf(error) }, 'the disk cache cannot be read');
      return null;
    }
  }

  async function write(key: string, entry: CacheEntry): Promise<void> {
    const { folder, shard, path } = place(key);
    const file = encodeEntry(key, entry);
    const size = blocks(file.length);
    if (size > shardBytes) return;
    await mkdir(folder, { recursive: true });
    const known = sizes.get(shard) ?? (await shrink(folder, shardBytes));
    const room = known + size <= shardBytes ? known : await shrink(folder, Math.floor(shardBytes * KEEP_PART) - size);
    const temp = `${path}.${parts.random.uuid()}.tmp`;
    await writeFile(temp, file, { mode: 0o600 });
    await rename(temp, path);
    sizes.set(shard, room + size);
  }

  /** Deletes the least recently used files of a shard until at most `keepBytes` are left; returns the bytes left. */
  async function shrink(folder: string, keepBytes: number): Promise<number> {
    const files = (await Promise.all((await readdir(folder)).map((name) => describe(join(folder, name))))).filter(
      (file) => file !== null,
    );
    let total = files.reduce((sum, file) => sum + file.size, 0);
    for (const file of files.sort((a, b) => a.usedAt - b.usedAt)) {
      const stale = file.path.endsWith('.tmp') && file.usedAt < clock.now() - STALE_TEMP_MS;
      if (total <= keepBytes && !stale) continue;
      await rm(file.path, { force: true });
      total -= file.size;
    }
    return total;
  }

  return {
    get,
    put(key, entry) {
      const size = entry.bytes.length;
      if (waitingBytes + size > parts.pendingBytes) return;
      waitingBytes += size;
      // Sequential: a burst of answers must not open as many files.
      waiting = waiting
        .then(() => write(key, entry))
        .catch((error: unknown) => log.warn({ code: codeOf(error) }, 'the disk cache cannot be written'))
        .then(() => {
          waitingBytes -= size;
        });
    },
    idle: () => waiting,
  };
}

const blocks = (bytes: number) => Math.ceil(bytes / BLOCK_BYTES) * BLOCK_BYTES;

async function describe(path: string) {
  try {
    const { size, mtimeMs } = await stat(path);
    return { path, size: blocks(size), usedAt: mtimeMs };
  } catch {
    // Deleted by another process.
    return null;
  }
}

const MAGIC = 0x50524331;
const HEADER_BYTES = 36;
const SUM_BYTES = 16;

/** The file of an entry: header, key, bytes. The checksum rejects incomplete and damaged files. */
export function encodeEntry(key: string, entry: CacheEntry): Buffer {
  const keyBytes = Buffer.from(key);
  const file = Buffer.alloc(HEADER_BYTES + keyBytes.length + entry.bytes.length);
  file.writeUInt32LE(MAGIC, 0);
  file.writeUInt32LE(keyBytes.length, 4);
  file.writeUInt32LE(entry.idStart, 8);
  file.writeUInt32LE(entry.idEnd, 12);
  file.writeUInt32LE(entry.bytes.length, 16);
  keyBytes.copy(file, HEADER_BYTES);
  entry.bytes.copy(file, HEADER_BYTES + keyBytes.length);
  checksum(file).copy(file, 20);
  return file;
}

/** The entry in a file for this key; null when the file is damaged or belongs to another key. */
export function decodeEntry(key: string, file: Buffer): CacheEntry | null {
  if (file.length < HEADER_BYTES || file.readUInt32LE(0) !== MAGIC) return null;
  const keyLength = file.readUInt32LE(4);
  const idStart = file.readUInt32LE(8);
  const idEnd = file.readUInt32LE(12);
  const length = file.readUInt32LE(16);
  if (file.length !== HEADER_BYTES + keyLength + length || idStart > idEnd || idEnd > length) return null;
  if (file.toString('utf8', HEADER_BYTES, HEADER_BYTES + keyLength) !== key) return null;
  if (!checksum(file).equals(file.subarray(20, 20 + SUM_BYTES))) return null;
  return { bytes: file.subarray(HEADER_BYTES + keyLength), idStart, idEnd };
}

function checksum(file: Buffer): Buffer {
  const hash = createHash('sha256').update(file.subarray(4, 20)).update(file.subarray(HEADER_BYTES));
  return hash.digest().subarray(0, SUM_BYTES);
}

/** An answer as received; the id of the first caller is between `idStart` and `idEnd`. */
export interface CacheEntry {
  readonly bytes: Buffer;
  readonly idStart: number;
  readonly idEnd: number;
  /** Text before and after the id, created on first use; null when it is too long or text would change the bytes. */
  text?: { readonly head: string; readonly tail: string } | null;
}

/** Up to this size text is cheaper to send than bytes: it leaves in one write with the header. */
const TEXT_BYTES = 32_768;

/**
 * Makes a cache entry of an answer: a result other than null, with a replaceable id. The bytes are copied, since a
 * received chunk is a view of a larger buffer that would stay in memory.
 */
export function cacheEntry(bytes: Buffer, parts: RpcReplyParts): CacheEntry | null {
  if (parts.result === null || parts.id === null || isNull(bytes, parts.result)) return null;
  const copy = Buffer.allocUnsafeSlow(bytes.length);
  bytes.copy(copy);
  return { bytes: copy, idStart: parts.id.start, idEnd: parts.id.end };
}

/** The answer for another caller in its cheapest form. `idText` is raw JSON. */
export function bodyFor(entry: CacheEntry, idText: string): string | Buffer {
  if (entry.text === undefined) entry.text = textAroundId(entry);
  return entry.text === null ? answerFor(entry, idText) : entry.text.head + idText + entry.text.tail;
}

function textAroundId({ bytes, idStart, idEnd }: CacheEntry): { readonly head: string; readonly tail: string } | null {
  if (bytes.length > TEXT_BYTES || !isAscii(bytes)) return null;
  return { head: bytes.toString('latin1', 0, idStart), tail: bytes.toString('latin1', idEnd) };
}

/** The answer for another caller: the received bytes with that caller's id. `idText` is raw JSON. */
export function answerFor(entry: CacheEntry, idText: string): Buffer {
  return Buffer.concat([
    entry.bytes.subarray(0, entry.idStart),
    Buffer.from(idText),
    entry.bytes.subarray(entry.idEnd),
  ]);
}
