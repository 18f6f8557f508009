import type { Generated } from 'kysely';
import type { Queries } from '../../src/ports/store.ts';

export interface ProjectRow {
  id: string;
  name: string;
  plan: string;
  /** Owner wallet, base58. */
  wallet: string | null;
  created_at: number;
  /** Day of the month on which a credit cycle begins; null: the day on which the project was made. */
  billing_day: number | null;
  /** JSON: the values that lie over those of the plan. */
  overrides: string | null;
  /** 1: the usage endpoint answers. */
  admin_api: number;
  /** All credits that were ever granted beside the plan's. */
  prepaid_granted: number;
  /** Those of them that were spent: whole credits, and millionths of a credit beside them. */
  prepaid_used: number;
  prepaid_used_micro: number;
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
  /** JSON array of products and named permissions; null: all. */
  permissions: string | null;
  /** JSON array of networks; null: from everywhere. */
  cidrs: string | null;
  /** JSON array of origins; null: any, or none at all. */
  origins: string | null;
  /** The key that takes its place. */
  successor_id: string | null;
  /** The member it was made for; null: the owner of the project. */
  wallet: string | null;
}

/** Spent credits of a project in a cycle: whole ones, and millionths of a credit beside them. */
export interface CycleRow {
  project_id: string;
  /** First day, `YYYY-MM-DD`. */
  cycle_start: string;
  /** Of the plan, and those beyond all others. */
  regular: number;
  regular_micro: number;
  prepaid: number;
  prepaid_micro: number;
}

/** What a project used on a day (UTC). Cycles are made of whole days. */
export interface DayRow {
  project_id: string;
  day: string;
  product: string;
  credits: number;
  credits_micro: number;
  requests: number;
  bytes: number;
}

export interface AccessTables {
  projects: {
    [Column in keyof ProjectRow]: Column extends Defaulted ? Generated<ProjectRow[Column]> : ProjectRow[Column];
  };
  api_keys: ApiKeyRow;
  /** Wallets of the members of a project, beside its owner's. */
  project_wallets: { project_id: string; wallet: string; added_at: number };
  usage_cycles: CycleRow;
  usage_days: DayRow;
  /** The last write of each process that counts usage: a write that may or may not have happened is told from one that has. */
  usage_writers: { id: string; seq: number; seen_at: number };
  /** Calls of a rate group by all processes, ever. */
  rate_taken: { project_id: string; rate_group: string; taken: number };
  /** One row per thing that may happen only once in the life of a store. */
  access_once: { what: string };
}

type Defaulted = 'billing_day' | 'overrides' | 'admin_api' | 'prepaid_granted' | 'prepaid_used' | 'prepaid_used_micro';

/** Narrows the open handle of the store to the tables of this plugin. */
export const tables = (db: Queries): Queries<AccessTables> => db as Queries<AccessTables>;
