import { join, resolve } from 'node:path';
import { CodedError, EXIT } from '../lib/coded-error.ts';
import type { Store } from '../ports/store.ts';
import type { WriteLock } from './write-lock.ts';

export interface StoreConfig {
  /** `sqlite:` = parhelion.db in the data directory, `sqlite:/path`, or postgres://… */
  readonly url: string;
  readonly poolSize: number;
  readonly busyTimeoutMs: number;
  readonly statementTimeoutMs: number;
}

const DEFAULT_FILE = 'parhelion.db';

/**
 * Opens the configured database. Loads only the library of the engine in use. Threads that open the same embedded database share a `lock`.
 * Errors: CONFIG_INVALID for an unknown kind of address, else those of the engine.
 */
export async function openStore(config: StoreConfig, dataDir: string, lock?: WriteLock): Promise<Store> {
  const { url, poolSize, busyTimeoutMs, statementTimeoutMs } = config;
  const file = sqliteFile(url, dataDir);
  if (file !== null) {
    const { openSqliteStore } = await import('./sqlite.ts');
    return openSqliteStore({ path: file, busyTimeoutMs, ...(lock === undefined ? {} : { lock }) });
  }
  if (url.startsWith('postgres://') || url.startsWith('postgresql://')) {
    const { openPostgresStore } = await import('./postgres.ts');
    return await openPostgresStore({ url, poolSize, statementTimeoutMs });
  }
  // Do not quote the address: it may contain a password.
  throw new CodedError('CONFIG_INVALID', 'store.url must begin with sqlite: or postgres://', {
    exitCode: EXIT.config,
    facts: { path: 'store.url' },
  });
}

/** Path of the embedded database of `store.url`; null if it is a server. */
export function sqliteFile(url: string, dataDir: string): string | null {
  if (!url.startsWith('sqlite:')) return null;
  const rest = url.slice('sqlite:'.length);
  const path = rest.startsWith('//') ? rest.slice(2) : rest;
  return path === '' ? join(resolve(dataDir), DEFAULT_FILE) : resolve(path);
}
