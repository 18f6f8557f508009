import type { Migration } from 'parhelion/plugin';

export const migrations: Migration[] = [
  {
    version: 1,
    name: 'create block log',
    breaking: false,
    async up({ db }) {
      await db.schema
        .createTable('block_log')
        .addColumn('slot', 'bigint', (column) => column.primaryKey())
        .addColumn('blockhash', 'text', (column) => column.notNull())
        .addColumn('transactions', 'integer', (column) => column.notNull())
        .execute();
      await db.schema
        .createTable('block_log_reports')
        .addColumn('slot', 'bigint', (column) => column.primaryKey())
        .execute();
    },
  },
];
