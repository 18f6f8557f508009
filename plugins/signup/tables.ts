import type { Migration, Queries } from '../../src/ports/store.ts';

export interface PaymentRow {
  /** Signature of the payment, base58. */
  signature: string;
  wallet: string;
  symbol: string;
  /** Raw units, decimal. */
  amount: string;
  slot: number;
  /** 1: its block will not be taken back. */
  is_final: number;
  /** Unix milliseconds; null until the key was given. */
  claimed_at: number | null;
  /** SHA-256 of the key, hexadecimal. */
  key_hash: string | null;
  project_id: string | null;
  /** Text of its memo instruction, which names a checkout; null: none, or longer than one. */
  memo: string | null;
  /** What a payment of calls has bought; null: it pays a sign-up. */
  credits: number | null;
  /** Unix milliseconds; null: no answer was given for it. */
  used_at: number | null;
}

interface SignupTables {
  signup_payments: PaymentRow;
  /** The project of each wallet that signed up. */
  signup_projects: { wallet: string; project_id: string };
  /** The project of each wallet that paid calls: it has what was paid, and nothing of its plan. */
  signup_payers: { wallet: string; project_id: string };
  /** One row: the key of tokens and checkouts, 32 bytes in hexadecimal. */
  signup_secret: { id: number; secret: string };
}

/** Narrows the open handle of the store to the tables of this plugin. */
export const tables = (db: Queries): Queries<SignupTables> => db as Queries<SignupTables>;

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
  {
    version: 2,
    name: 'add memos of payments and the key of checkouts',
    breaking: false,
    async up(tx) {
      await tx.db.schema.alterTable('signup_payments').addColumn('memo', 'text').execute();
      await tx.db.schema.createIndex('signup_payments_memo').on('signup_payments').column('memo').execute();
      await tx.db.schema
        .createTable('signup_secret')
        .addColumn('id', 'integer', (column) => column.primaryKey())
        .addColumn('secret', 'text', (column) => column.notNull())
        .execute();
    },
  },
  {
    version: 3,
    name: 'add payments of calls',
    breaking: false,
    async up(tx) {
      await tx.db.schema.alterTable('signup_payments').addColumn('credits', 'bigint').execute();
      await tx.db.schema.alterTable('signup_payments').addColumn('used_at', 'bigint').execute();
      await tx.db.schema
        .createTable('signup_payers')
        .addColumn('wallet', 'text', (column) => column.primaryKey())
        .addColumn('project_id', 'text', (column) => column.notNull())
        .execute();
    },
  },
];
