import { hashApiKey } from '../../../plugins/access/keys.ts';
import { type ApiKeyRow, tables } from '../../../plugins/access/tables.ts';
import type { Store } from '../../../src/ports/store.ts';
import { accessBed } from '../../helpers/access-harness.ts';

const ROWS_AT_ONCE = 500;

export const keyOf = (index: number) => `bench-key-${index}`;

/** A store with so many projects and keys, all without limits. */
export async function fillWithKeys(store: Store, projects: number, keys: number): Promise<void> {
  await accessBed(store, { plan: 'unlimited' });
  const insert = async <T>(count: number, row: (index: number) => T, write: (rows: T[]) => Promise<void>) => {
    for (let at = 0; at < count; at += ROWS_AT_ONCE)
      await write(Array.from({ length: Math.min(ROWS_AT_ONCE, count - at) }, (_, offset) => row(at + offset)));
  };
  const project = (index: number) => ({ id: `p-${index}`, name: 'p', plan: 'unlimited', wallet: null, created_at: 1 });
  const key = (index: number): ApiKeyRow => ({
    id: `k-${index}`,
    project_id: `p-${index % projects}`,
    hash: hashApiKey(keyOf(index)),
    prefix: 'bench',
    name: '',
    created_at: 1,
    expires_at: null,
    revoked_at: null,
    permissions: null,
    cidrs: null,
    origins: null,
    successor_id: null,
    wallet: null,
  });
  await insert(projects, project, (rows) =>
    store.write(async (tx) => void (await tables(tx.db).insertInto('projects').values(rows).execute())),
  );
  await insert(keys, key, (rows) =>
    store.write(async (tx) => void (await tables(tx.db).insertInto('api_keys').values(rows).execute())),
  );
}
