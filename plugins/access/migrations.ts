import type { ColumnDefinitionBuilder } from 'kysely';
import type { Migration, StoreTx } from '../../src/ports/store.ts';

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
  {
    version: 2,
    name: 'add limits, credits and usage',
    // A binary without it would take no notice of what limits a key.
    breaking: true,
    async up(tx) {
      await addColumns(tx);
      await addUsage(tx);
    },
  },
  {
    version: 3,
    name: 'add wallets of members',
    breaking: false,
    async up(tx) {
      const { schema } = tx.db;
      await schema
        .createTable('project_wallets')
        .addColumn('project_id', 'text', (column) => column.notNull().references('projects.id'))
        .addColumn('wallet', 'text', (column) => column.notNull())
        .addColumn('added_at', 'bigint', (column) => column.notNull())
        .addPrimaryKeyConstraint('project_wallets_pkey', ['project_id', 'wallet'])
        .execute();
      await schema.alterTable('api_keys').addColumn('wallet', 'text').execute();
    },
  },
];

async function addColumns(tx: StoreTx): Promise<void> {
  const { schema } = tx.db;
  for (const [name, type] of [
    ['billing_day', 'integer'],
    ['overrides', 'text'],
  ] as const)
    await schema.alterTable('projects').addColumn(name, type).execute();
  for (const [name, value] of [
    ['admin_api', 1],
    ['prepaid_granted', 0],
    ['prepaid_used', 0],
    ['prepaid_used_micro', 0],
  ] as const)
    await schema
      .alterTable('projects')
      .addColumn(name, 'bigint', (column) => column.notNull().defaultTo(value))
      .execute();
  for (const name of ['permissions', 'cidrs', 'origins', 'successor_id'])
    await schema.alterTable('api_keys').addColumn(name, 'text').execute();
}

async function addUsage(tx: StoreTx): Promise<void> {
  const { schema } = tx.db;
  const count = (column: ColumnDefinitionBuilder) => column.notNull().defaultTo(0);
  const text = (column: ColumnDefinitionBuilder) => column.notNull();
  await schema
    .createTable('usage_cycles')
    .addColumn('project_id', 'text', text)
    .addColumn('cycle_start', 'text', text)
    .addColumn('regular', 'bigint', count)
    .addColumn('regular_micro', 'bigint', count)
    .addColumn('prepaid', 'bigint', count)
    .addColumn('prepaid_micro', 'bigint', count)
    .addPrimaryKeyConstraint('usage_cycles_pk', ['project_id', 'cycle_start'])
    .execute();
  await schema
    .createTable('usage_days')
    .addColumn('project_id', 'text', text)
    .addColumn('day', 'text', text)
    .addColumn('product', 'text', text)
    .addColumn('credits', 'bigint', count)
    .addColumn('credits_micro', 'bigint', count)
    .addColumn('requests', 'bigint', count)
    .addColumn('bytes', 'bigint', count)
    .addPrimaryKeyConstraint('usage_days_pk', ['project_id', 'day', 'product'])
    .execute();
  await schema
    .createTable('usage_writers')
    .addColumn('id', 'text', (column) => column.primaryKey())
    .addColumn('seq', 'bigint', text)
    .addColumn('seen_at', 'bigint', text)
    .execute();
  await schema
    .createTable('rate_taken')
    .addColumn('project_id', 'text', text)
    .addColumn('rate_group', 'text', text)
    .addColumn('taken', 'bigint', count)
    .addPrimaryKeyConstraint('rate_taken_pk', ['project_id', 'rate_group'])
    .execute();
}
