import { CodedError } from '../../src/lib/coded-error.ts';
import type { Clock, Random } from '../../src/ports/clock.ts';
import type { Store, StoreTx } from '../../src/ports/store.ts';
import { ACCESS_ERRORS } from './errors.ts';
import { hashKey, isKeyForm, keyPrefix } from './keys.ts';
import { isPlan } from './plans.ts';
import { type ApiKeyRow, type ProjectRow, tables } from './tables.ts';

const USAGE = 64;

export interface NewKey {
  readonly id: string;
  readonly projectId: string;
  /** In full: shown once, stored nowhere. */
  readonly key: string;
}

/** Writes of projects and keys. */
export interface Projects {
  /** Errors: ACCESS_UNKNOWN_PLAN, ACCESS_BAD_NAME. */
  create(
    tx: StoreTx,
    project: { readonly name: string; readonly plan: string; readonly wallet?: string },
  ): Promise<ProjectRow>;
  /** `key` replaces a random one; `expiresAt` in unix milliseconds. Errors: ACCESS_UNKNOWN_PROJECT, ACCESS_BAD_KEY. */
  createKey(
    tx: StoreTx,
    key: { readonly projectId: string; readonly name?: string; readonly key?: string; readonly expiresAt?: number },
  ): Promise<NewKey>;
  /** Returns false when the key was revoked already. Errors: ACCESS_UNKNOWN_KEY. */
  revokeKey(tx: StoreTx, id: string): Promise<boolean>;
}

export function createProjects(clock: Clock, random: Random): Projects {
  return {
    async create(tx, { name, plan, wallet }) {
      if (!isPlan(plan)) throw usage('ACCESS_UNKNOWN_PLAN');
      if (name.length < 1 || name.length > 128) throw usage('ACCESS_BAD_NAME');
      const row = { id: random.uuid(), name, plan, wallet: wallet ?? null, created_at: clock.now() };
      await tables(tx.db).insertInto('projects').values(row).execute();
      return row;
    },
    async createKey(tx, { projectId, name, key = random.uuid(), expiresAt }) {
      if (!isKeyForm(key)) throw usage('ACCESS_BAD_KEY');
      const db = tables(tx.db);
      const project = await db.selectFrom('projects').select('id').where('id', '=', projectId).executeTakeFirst();
      if (project === undefined) throw usage('ACCESS_UNKNOWN_PROJECT');
      const row: ApiKeyRow = {
        id: random.uuid(),
        project_id: projectId,
        hash: hashKey(key),
        prefix: keyPrefix(key),
        name: name ?? '',
        created_at: clock.now(),
        expires_at: expiresAt ?? null,
        revoked_at: null,
      };
      await db.insertInto('api_keys').values(row).execute();
      return { id: row.id, projectId, key };
    },
    async revokeKey(tx, id) {
      const db = tables(tx.db);
      const row = await db.selectFrom('api_keys').select('revoked_at').where('id', '=', id).executeTakeFirst();
      if (row === undefined) throw usage('ACCESS_UNKNOWN_KEY');
      if (row.revoked_at !== null) return false;
      await db.updateTable('api_keys').set({ revoked_at: clock.now() }).where('id', '=', id).execute();
      return true;
    },
  };
}

export async function listProjects(store: Store): Promise<ProjectRow[]> {
  return await tables(store.read).selectFrom('projects').selectAll().orderBy('created_at').orderBy('id').execute();
}

/** Without the hashes: nobody needs them outside the gate. */
export async function listKeys(store: Store, projectId?: string): Promise<Omit<ApiKeyRow, 'hash'>[]> {
  let query = tables(store.read)
    .selectFrom('api_keys')
    .select(['id', 'project_id', 'prefix', 'name', 'created_at', 'expires_at', 'revoked_at']);
  if (projectId !== undefined) query = query.where('project_id', '=', projectId);
  return await query.orderBy('created_at').orderBy('id').execute();
}

function usage(code: keyof typeof ACCESS_ERRORS): CodedError {
  return new CodedError(code, ACCESS_ERRORS[code], { exitCode: USAGE });
}
