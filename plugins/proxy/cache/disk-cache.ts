import { createHash } from 'node:crypto';
import { mkdir, readdir, readFile, rename, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Clock, codeOf, type Log, type Random } from '../../../src/kernel/plugin.ts';
import { decodeEntry, encodeEntry } from './disk-entry.ts';
import type { CacheEntry } from './entry.ts';

export interface DiskCacheParts {
  readonly dir: string;
  /** Files are counted in whole file system blocks. */
  readonly maxBytes: number;
  /** Bytes that may wait to be written. */
  readonly pendingBytes: number;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
}

/** A cache of files that survives a crash: each file is complete or is not read. Never throws: a failing disk is a miss. */
export interface DiskCache {
  get(key: string): Promise<CacheEntry | null>;
  /** Begins to write and returns; left out when too much waits already. */
  put(key: string, entry: CacheEntry): void;
  /** Resolves when nothing waits to be written. */
  idle(): Promise<void>;
}

const BLOCK_BYTES = 4096;
const SHARDS = '0123456789abcdef';
/** A shard over its share is emptied to this part, oldest use first, so that it is not listed at each write. */
const KEEP_PART = 0.75;
/** A temporary file of this age belongs to a process that is gone. */
const STALE_TEMP_MS = 3_600_000;

export function createDiskCache(parts: DiskCacheParts): DiskCache {
  const { dir, log, clock } = parts;
  const shardBytes = Math.floor(parts.maxBytes / SHARDS.length);
  /** Bytes of each shard that was written to since the start; another process may make them too small, never for long. */
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

  /** Deletes the least recently used files of a shard until at most `keepBytes` are left; answers how many bytes are left. */
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
      // One after the other: a burst of answers must not become a burst of open files.
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
    // Deleted by another process meanwhile.
    return null;
  }
}
