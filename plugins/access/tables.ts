import type { Queries } from '../../src/ports/store.ts';

export interface ProjectRow {
  id: string;
  name: string;
  plan: string;
  /** Owner wallet, base58. */
  wallet: string | null;
  created_at: number;
}

export interface ApiKeyRow {
  id: string;
  project_id: string;
  /** SHA-256 of the key; the key itself is stored nowhere. */
  hash: Uint8Array;
  /** The first characters, for people who look for a key in a list. */
  prefix: string;
  name: string;
  created_at: number;
  expires_at: number | null;
  revoked_at: number | null;
}

export interface AccessTables {
  projects: ProjectRow;
  api_keys: ApiKeyRow;
  /** One row per thing that may happen only once in the life of a store. */
  access_once: { what: string };
}

/** Narrows the open handle of the store to the tables of this plugin. */
export const tables = (db: Queries): Queries<AccessTables> => db as Queries<AccessTables>;
