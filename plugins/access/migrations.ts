import type { Migration } from '../../src/ports/store.ts';

export const migrations: readonly Migration[] = [
  {
    version: 1,
    name: 'create projects and keys',
    breaking: false,
    async up(tx) {
      const bytes = tx.dialect === 'postgres' ? 'bytea' : 'blob';
      await tx.db.schema
        .createTable('projects')
        .addColumn('id', 'text', (column) => column.primaryKey())
        .addColumn('name', 'text', (column) => column.notNull())
        .addColumn('plan', 'text', (column) => column.notNull())
        .addColumn('wallet', 'text')
        .addColumn('created_at', 'bigint', (column) => column.notNull())
        .execute();
      await tx.db.schema
        .createTable('api_keys')
        .addColumn('id', 'text', (column) => column.primaryKey())
        .addColumn('project_id', 'text', (column) => column.notNull().references('projects.id'))
        .addColumn('hash', bytes, (column) => column.notNull().unique())
        .addColumn('prefix', 'text', (column) => column.notNull())
        .addColumn('name', 'text', (column) => column.notNull())
        .addColumn('created_at', 'bigint', (column) => column.notNull())
        .addColumn('expires_at', 'bigint')
        .addColumn('revoked_at', 'bigint')
        .execute();
      await tx.db.schema.createIndex('api_keys_project').on('api_keys').column('project_id').execute();
      await tx.db.schema
        .createTable('access_once')
        .addColumn('what', 'text', (column) => column.primaryKey())
        .execute();
    },
  },
];
