import type { Migration } from '../../../src/ports/store.ts';

export const migrations: readonly Migration[] = [
  {
    version: 1,
    name: 'create payments and projects of wallets',
    breaking: false,
    async up(tx) {
      await tx.db.schema
        .createTable('signup_payments')
        .addColumn('signature', 'text', (column) => column.notNull())
        .addColumn('wallet', 'text', (column) => column.notNull())
        .addColumn('symbol', 'text', (column) => column.notNull())
        .addColumn('amount', 'text', (column) => column.notNull())
        .addColumn('slot', 'bigint', (column) => column.notNull())
        .addColumn('is_final', 'bigint', (column) => column.notNull())
        .addColumn('claimed_at', 'bigint')
        .addColumn('key_hash', 'text')
        .addColumn('project_id', 'text')
        .addPrimaryKeyConstraint('signup_payments_pkey', ['signature', 'wallet'])
        .execute();
      await tx.db.schema
        .createIndex('signup_payments_open')
        .on('signup_payments')
        .columns(['is_final', 'slot'])
        .execute();
      await tx.db.schema
        .createTable('signup_projects')
        .addColumn('wallet', 'text', (column) => column.primaryKey())
        .addColumn('project_id', 'text', (column) => column.notNull())
        .execute();
    },
  },
];
