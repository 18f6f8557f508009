import { join } from 'node:path';
import { Database } from './sqlite.ts';

/**
 * Whether the daemon with this folder, on SQLite, has stored everything that it follows. Before that an asset is read from the chain, and one
 * that is closed leaves nothing to know it by.
 */
export function isFilled(dataDir: string): boolean {
  const store = new Database(join(dataDir, 'parhelion.db'), { readonly: true });
  try {
    const rows = store.prepare('SELECT state FROM das_followed').all() as readonly { readonly state: string }[];
    return rows.length > 0 && rows.every(({ state }) => state === 'ready');
  } finally {
    store.close();
  }
}
