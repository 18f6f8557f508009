import type { Migration } from '../../../src/ports/store.ts';

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
];
