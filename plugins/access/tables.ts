import type { ColumnDefinitionBuilder, Generated } from 'kysely';
import type { Migration, Queries, StoreTx } from '../../src/ports/store.ts';

export interface ProjectRow {
  id: string;
  name: string;
  plan: string;
  /** Owner wallet, base58. */
  wallet: string | null;
  created_at: number;
  /** Day of the month on which a credit cycle begins; null: the day on which the project was created. */
  billing_day: number | null;
  /** JSON: the values that override those of the plan. */
  overrides: string | null;
  /** 1: the usage endpoint is enabled. */
  admin_api: number;
  /** Total of prepaid credits ever granted. */
  prepaid_granted: number;
  /** Prepaid credits spent: whole credits, and millionths of a credit. */
  prepaid_used: number;
  prepaid_used_micro: number;
  /** Set: its keys do not work and its deliveries wait. */
  disabled_at: number | null;
  /** Set: only its usage is left. A deleted project is disabled too. */
  deleted_at: number | null;
  /** Number of its last change, or of one of its keys; over all projects in the order of the commits. */
  change_number: number;
}

export interface ApiKeyRow {
  id: string;
  project_id: string;
  /** SHA-256 of the key; the key itself is not stored. */
  hash: Uint8Array;
  /** The first characters, to recognize the key in a list. */
  prefix: string;
  name: string;
  created_at: number;
  expires_at: number | null;
  revoked_at: number | null;
  /** JSON array of products and named permissions; null: all. */
  permissions: string | null;
  /** JSON array of networks; null: no limit. */
  cidrs: string | null;
  /** JSON array of origins; null: any origin, or none. */
  origins: string | null;
  /** The key that replaces it. */
  successor_id: string | null;
  /** The member that it was created for; null: the owner of the project. */
  wallet: string | null;
}

/** Spent credits of a project in a cycle: whole credits, and millionths of a credit. */
export interface CycleRow {
  project_id: string;
  /** First day, `YYYY-MM-DD`. */
  cycle_start: string;
  /** Regular credits: those of the plan, and overage. */
  regular: number;
  regular_micro: number;
  prepaid: number;
  prepaid_micro: number;
}

/** Usage of a project on a day (UTC). Cycles consist of whole days. */
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
  /** Wallets of the members of a project, except its owner. */
  project_wallets: { project_id: string; wallet: string; added_at: number };
  usage_cycles: CycleRow;
  usage_days: DayRow;
  /** The last write of each process that counts usage; after a lost connection it shows whether the write was committed. */
  usage_writers: { id: string; seq: number; seen_at: number };
  /** Total tokens of a rate group ever taken by all processes. */
  rate_taken: { project_id: string; rate_group: string; taken: number };
  /** One row per action that may happen only once per store. */
  access_once: { name: string };
}

type Defaulted =
  | 'billing_day'
  | 'overrides'
  | 'admin_api'
  | 'prepaid_granted'
  | 'prepaid_used'
  | 'prepaid_used_micro'
  | 'disabled_at'
  | 'deleted_at'
  | 'change_number';

/** Narrows the open handle of the store to the tables of this plugin. */
export const tables = (db: Queries): Queries<AccessTables> => db as Queries<AccessTables>;

async function createTables(tx: StoreTx): Promise<void> {
  const { schema } = tx.db;
  const bytes = tx.dialect === 'postgres' ? 'bytea' : 'blob';
  const required = (column: ColumnDefinitionBuilder) => column.notNull();
  const primary = (column: ColumnDefinitionBuilder) => column.primaryKey();
  const count = (column: ColumnDefinitionBuilder) => column.notNull().defaultTo(0);
  await schema
    .createTable('projects')
    .addColumn('id', 'text', primary)
    .addColumn('name', 'text', required)
    .addColumn('plan', 'text', required)
    .addColumn('wallet', 'text')
    .addColumn('created_at', 'bigint', required)
    .addColumn('billing_day', 'integer')
    .addColumn('overrides', 'text')
    .addColumn('admin_api', 'bigint', (column) => column.notNull().defaultTo(1))
    .addColumn('prepaid_granted', 'bigint', count)
    .addColumn('prepaid_used', 'bigint', count)
    .addColumn('prepaid_used_micro', 'bigint', count)
    .addColumn('disabled_at', 'bigint')
    .addColumn('deleted_at', 'bigint')
    .addColumn('change_number', 'bigint', count)
    .execute();
  await schema.createIndex('projects_change').on('projects').column('change_number').execute();
  await schema
    .createTable('project_wallets')
    .addColumn('project_id', 'text', (column) => column.notNull().references('projects.id'))
    .addColumn('wallet', 'text', required)
    .addColumn('added_at', 'bigint', required)
    .addPrimaryKeyConstraint('project_wallets_pkey', ['project_id', 'wallet'])
    .execute();
  await schema
    .createTable('api_keys')
    .addColumn('id', 'text', primary)
    .addColumn('project_id', 'text', (column) => column.notNull().references('projects.id'))
    .addColumn('hash', bytes, (column) => column.notNull().unique())
    .addColumn('prefix', 'text', required)
    .addColumn('name', 'text', required)
    .addColumn('created_at', 'bigint', required)
    .addColumn('expires_at', 'bigint')
    .addColumn('revoked_at', 'bigint')
    .addColumn('permissions', 'text')
    .addColumn('cidrs', 'text')
    .addColumn('origins', 'text')
    .addColumn('successor_id', 'text')
    .addColumn('wallet', 'text')
    .execute();
  await schema.createIndex('api_keys_project').on('api_keys').column('project_id').execute();
  await schema
    .createTable('usage_cycles')
    .addColumn('project_id', 'text', required)
    .addColumn('cycle_start', 'text', required)
    .addColumn('regular', 'bigint', count)
    .addColumn('regular_micro', 'bigint', count)
    .addColumn('prepaid', 'bigint', count)
    .addColumn('prepaid_micro', 'bigint', count)
    .addPrimaryKeyConstraint('usage_cycles_pk', ['project_id', 'cycle_start'])
    .execute();
  await schema
    .createTable('usage_days')
    .addColumn('project_id', 'text', required)
    .addColumn('day', 'text', required)
    .addColumn('product', 'text', required)
    .addColumn('credits', 'bigint', count)
    .addColumn('credits_micro', 'bigint', count)
    .addColumn('requests', 'bigint', count)
    .addColumn('bytes', 'bigint', count)
    .addPrimaryKeyConstraint('usage_days_pk', ['project_id', 'day', 'product'])
    .execute();
  await schema
    .createTable('usage_writers')
    .addColumn('id', 'text', primary)
    .addColumn('seq', 'bigint', required)
    .addColumn('seen_at', 'bigint', required)
    .execute();
  await schema
    .createTable('rate_taken')
    .addColumn('project_id', 'text', required)
    .addColumn('rate_group', 'text', required)
    .addColumn('taken', 'bigint', count)
    .addPrimaryKeyConstraint('rate_taken_pk', ['project_id', 'rate_group'])
    .execute();
  await schema.createTable('access_once').addColumn('name', 'text', primary).execute();
}

export const migrations: readonly Migration[] = [
  { version: 1, name: 'create projects, keys and usage', breaking: false, up: createTables },
];
