import { stat, statfs } from 'node:fs/promises';
import { sql } from 'kysely';
import { codeOf, messageOf } from '../lib/coded-error.ts';
import type { Clock } from '../ports/clock.ts';
import type { Log } from '../ports/log.ts';
import type { Metrics } from '../ports/metrics.ts';
import type { Store } from '../ports/store.ts';
import { startEvery } from '../runtime/every.ts';
import { sqliteFile } from '../store/index.ts';

export interface StorageOptions {
  readonly store: () => Store;
  /** `store.url` of the configuration. */
  readonly url: string;
  /** Folder of store and caches. */
  readonly dataDir: string;
  scope(area: string): Metrics;
  readonly clock: Clock;
  readonly log: Log;
}

/** Measures the size of the store and the free space of the data folder, once per interval, so that a scrape waits for nothing. */
export interface Storage {
  /** Never rejects: what cannot be measured has no sample. */
  start(): Promise<void>;
  stop(): Promise<void>;
}

const INTERVAL_MS = 15_000;

export function createStorage({ store, url, dataDir, scope, clock, log }: StorageOptions): Storage {
  const size = scope('store').gauge('size_bytes', 'size of the database and of its write-ahead log (SQLite)', ['part']);
  const disk = scope('disk');
  const free = disk.gauge('free_bytes', 'free space of the file system of dataDir', ['folder']);
  const whole = disk.gauge('size_bytes', 'size of the file system of dataDir', ['folder']);
  const file = sqliteFile(url, dataDir);
  let stop: (() => Promise<void>) | null = null;
  let isFailing = false;

  async function measureStore(): Promise<void> {
    if (file === null) {
      const query = sql<{ bytes: number }>`select pg_database_size(current_database()) as bytes`;
      const { rows } = await query.execute(store().read);
      size.with('database').set(Number(rows[0]?.bytes));
      return;
    }
    size.with('database').set(await sizeOf(file));
    size.with('wal').set(await sizeOf(`${file}-wal`));
  }

  async function measureDisk(): Promise<void> {
    const { bavail, blocks, bsize } = await statfs(dataDir);
    free.with('dataDir').set(bavail * bsize);
    whole.with('dataDir').set(blocks * bsize);
  }

  async function measure(): Promise<void> {
    const failed = (await Promise.allSettled([measureStore(), measureDisk()])).find(
      (result) => result.status === 'rejected',
    );
    if (failed !== undefined && !isFailing)
      log.warn({ code: codeOf(failed.reason), error: messageOf(failed.reason) }, 'store and disk cannot be measured');
    isFailing = failed !== undefined;
  }

  return {
    async start() {
      await measure();
      stop = startEvery(clock, INTERVAL_MS, measure, () => undefined);
    },
    async stop() {
      await stop?.();
    },
  };
}

/** A write-ahead log that is not there has no bytes. */
async function sizeOf(path: string): Promise<number> {
  try {
    return (await stat(path)).size;
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return 0;
    throw error;
  }
}
