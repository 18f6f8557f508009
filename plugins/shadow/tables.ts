import type { Migration, Queries } from '../../src/ports/store.ts';

/** Differences of one method, path, kind and explanation. */
export interface GroupRow {
  id: string;
  method: string;
  product: string;
  path: string;
  kind: string;
  /** Empty: unexplained. */
  reason: string;
  count: number;
  /** Unix milliseconds. */
  first_at: number;
  last_at: number;
}

/** A stored difference with both answers. */
export interface DifferenceRow {
  id: string;
  group_id: string;
  at: number;
  /** Texts, with secrets masked. */
  question: string;
  our_value: string;
  their_value: string;
  our_status: number;
  their_status: number;
  ours: string;
  theirs: string;
}

/** Compared answers of a method on a UTC day, by outcome. */
export interface CountRow {
  day: number;
  method: string;
  product: string;
  equal: number;
  /** All their differences are explained. */
  explained: number;
  different: number;
  /** The reference did not answer. */
  unanswered: number;
}

export interface SpentRow {
  /** Days since 1970 UTC. */
  day: number;
  requests: number;
  credits: number;
  bytes: number;
}

interface ShadowTables {
  shadow_groups: GroupRow;
  shadow_differences: DifferenceRow;
  shadow_counts: CountRow;
  shadow_spent: SpentRow;
}

/** Narrows the open handle of the store to the tables of this plugin. */
export const tables = (db: Queries): Queries<ShadowTables> => db as Queries<ShadowTables>;

export const migrations: readonly Migration[] = [
  {
    version: 1,
    name: 'create groups, differences, counts and the spent budget',
    breaking: false,
    async up({ db: { schema }, dialect }) {
      const real = dialect === 'postgres' ? 'double precision' : 'real';
      await schema
        .createTable('shadow_groups')
        .addColumn('id', 'text', (column) => column.primaryKey())
        .addColumn('method', 'text', (column) => column.notNull())
        .addColumn('product', 'text', (column) => column.notNull())
        .addColumn('path', 'text', (column) => column.notNull())
        .addColumn('kind', 'text', (column) => column.notNull())
        .addColumn('reason', 'text', (column) => column.notNull())
        .addColumn('count', 'bigint', (column) => column.notNull())
        .addColumn('first_at', 'bigint', (column) => column.notNull())
        .addColumn('last_at', 'bigint', (column) => column.notNull())
        .execute();
      await schema
        .createTable('shadow_differences')
        .addColumn('id', 'text', (column) => column.primaryKey())
        .addColumn('group_id', 'text', (column) => column.notNull())
        .addColumn('at', 'bigint', (column) => column.notNull())
        .addColumn('question', 'text', (column) => column.notNull())
        .addColumn('our_value', 'text', (column) => column.notNull())
        .addColumn('their_value', 'text', (column) => column.notNull())
        .addColumn('our_status', 'integer', (column) => column.notNull())
        .addColumn('their_status', 'integer', (column) => column.notNull())
        .addColumn('ours', 'text', (column) => column.notNull())
        .addColumn('theirs', 'text', (column) => column.notNull())
        .execute();
      await schema
        .createIndex('shadow_differences_group')
        .on('shadow_differences')
        .columns(['group_id', 'at'])
        .execute();
      await schema.createIndex('shadow_differences_at').on('shadow_differences').columns(['at']).execute();
      await schema
        .createTable('shadow_counts')
        .addColumn('day', 'bigint', (column) => column.notNull())
        .addColumn('method', 'text', (column) => column.notNull())
        .addColumn('product', 'text', (column) => column.notNull())
        .addColumn('equal', 'bigint', (column) => column.notNull())
        .addColumn('explained', 'bigint', (column) => column.notNull())
        .addColumn('different', 'bigint', (column) => column.notNull())
        .addColumn('unanswered', 'bigint', (column) => column.notNull())
        .addPrimaryKeyConstraint('shadow_counts_pk', ['day', 'method'])
        .execute();
      await schema
        .createTable('shadow_spent')
        .addColumn('day', 'bigint', (column) => column.primaryKey())
        .addColumn('requests', 'bigint', (column) => column.notNull())
        .addColumn('credits', real, (column) => column.notNull())
        .addColumn('bytes', 'bigint', (column) => column.notNull())
        .execute();
    },
  },
];
