import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Store } from '../../../src/ports/store.ts';
import { openSqliteStore } from '../../../src/store/sqlite.ts';

const MEMORY = '/dev/shm';

/** A fresh SQLite store, in memory where the system offers that as a folder: hundreds of lives would wait for the disk only. */
export async function quickStore(): Promise<{ readonly store: Store; remove(): Promise<void> }> {
  const directory = await mkdtemp(join(existsSync(MEMORY) ? MEMORY : tmpdir(), 'parhelion-follow-'));
  const store = openSqliteStore({ path: join(directory, 'parhelion.db'), busyTimeoutMs: 5_000 });
  return {
    store,
    async remove() {
      await store.close();
      await rm(directory, { recursive: true, force: true });
    },
  };
}
