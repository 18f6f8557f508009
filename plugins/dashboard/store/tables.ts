import type { Migration, Queries } from '../../../src/ports/store.ts';

/** An action of somebody who was logged in, or tried to be. */
export interface AuditRow {
  id: string;
  /** Orders what happens within one millisecond. */
  seq: number;
  /** Unix milliseconds. */
  at: number;
  /** `operator`, `project:<id>`, `command line` or `nobody`. */
  actor: string;
  address: string;
  /** Area and verb, such as `keys.revoke`. */
  action: string;
  /** What it was done to, without secrets. */
  target: string;
  /** `begun`: the process ended before it could tell. */
  outcome: 'begun' | 'done' | 'failed';
}

interface ProjectSecretRow {
  project_id: string;
  /** SHA-256; the secret itself is stored nowhere. */
  hash: Uint8Array;
  created_at: number;
}

interface OperatorRow {
  id: number;
  /** SHA-256; the token itself is stored nowhere. */
  hash: Uint8Array;
  created_at: number;
}

interface SessionEndsRow {
  /** `operator`, `project:<id>`, or `*` for everybody. */
  name: string;
  times: number;
}

interface DashboardTables {
  dashboard_audit: AuditRow;
  dashboard_secrets: ProjectSecretRow;
  dashboard_operator: OperatorRow;
  dashboard_session_ends: SessionEndsRow;
}

/** Narrows the open handle of the store to the tables of this plugin. */
export const tables = (db: Queries): Queries<DashboardTables> => db as Queries<DashboardTables>;

export const migrations: readonly Migration[] = [
  {
    version: 1,
    name: 'create audit log and project secrets',
    breaking: false,
    async up(tx) {
      const bytes = tx.dialect === 'postgres' ? 'bytea' : 'blob';
      await tx.db.schema
        .createTable('dashboard_audit')
        .addColumn('id', 'text', (column) => column.primaryKey())
        .addColumn('seq', 'integer', (column) => column.notNull())
        .addColumn('at', 'bigint', (column) => column.notNull())
        .addColumn('actor', 'text', (column) => column.notNull())
        .addColumn('address', 'text', (column) => column.notNull())
        .addColumn('action', 'text', (column) => column.notNull())
        .addColumn('target', 'text', (column) => column.notNull())
        .addColumn('outcome', 'text', (column) => column.notNull())
        .execute();
      await tx.db.schema.createIndex('dashboard_audit_at').on('dashboard_audit').columns(['at', 'seq']).execute();
      await tx.db.schema
        .createTable('dashboard_secrets')
        .addColumn('project_id', 'text', (column) => column.primaryKey())
        .addColumn('hash', bytes, (column) => column.notNull())
        .addColumn('created_at', 'bigint', (column) => column.notNull())
        .execute();
    },
  },
  {
    version: 2,
    name: 'create the operator token',
    breaking: false,
    async up(tx) {
      await tx.db.schema
        .createTable('dashboard_operator')
        .addColumn('id', 'integer', (column) => column.primaryKey())
        .addColumn('hash', tx.dialect === 'postgres' ? 'bytea' : 'blob', (column) => column.notNull())
        .addColumn('created_at', 'bigint', (column) => column.notNull())
        .execute();
    },
  },
  {
    version: 3,
    name: 'count how often the sessions of an identity were ended',
    breaking: false,
    async up(tx) {
      await tx.db.schema
        .createTable('dashboard_session_ends')
        .addColumn('name', 'text', (column) => column.primaryKey())
        .addColumn('times', 'integer', (column) => column.notNull())
        .execute();
    },
  },
];
