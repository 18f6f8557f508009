import { sql } from 'kysely';
import type { BlockProcessor } from '../../src/plugin/plugin.ts';
import type { Migration, Queries, Store } from '../../src/ports/store.ts';

interface Tables {
  ledger_entries: { owner: string; slot: number; signature: string };
  ledger_balance: { owner: string; count: number; last_slot: number };
}
const tables = (db: Queries) => db as unknown as Queries<Tables>;

/** Scope `test.ledger`. */
export const ledgerMigrations: readonly Migration[] = [
  {
    version: 1,
    name: 'create ledger',
    breaking: false,
    async up({ db }) {
      await sql`create table ledger_entries (owner text not null, slot bigint not null, signature text not null,
        primary key (owner, slot, signature))`.execute(db);
      await sql`create table ledger_balance (owner text not null primary key, count bigint not null,
        last_slot bigint not null)`.execute(db);
      await sql`create table ledger_undo (owner text not null, slot bigint not null, count bigint not null,
        last_slot bigint not null, primary key (owner, slot))`.execute(db);
    },
  },
];

export interface LedgerOptions {
  readonly name?: string;
  readonly version?: number;
  readonly startSlot?: number;
  readonly pressure?: BlockProcessor['pressure'];
}

/** A processor that writes a row per transaction, and keeps a running state whose roll-back needs its undo rows. */
export function createLedgerProcessor({
  name = 'ledger',
  version = 1,
  startSlot,
  pressure,
}: LedgerOptions = {}): BlockProcessor {
  const owner = `${name}@${version}`;
  return {
    name,
    version,
    chains: ['main'],
    ...(startSlot === undefined ? {} : { startSlot }),
    ...(pressure === undefined ? {} : { pressure }),
    async apply(tx, block) {
      const rows = block.transactions.map((transaction) => [owner, block.slot, transaction.signature] as const);
      await tx.insertMany('ledger_entries', ['owner', 'slot', 'signature'], rows);
      await tx.insertMany('ledger_balance', ['owner', 'count', 'last_slot'], [[owner, 0, -1]], 'ignore');
      await sql`insert into ledger_undo (owner, slot, count, last_slot)
        select owner, ${block.slot}, count, last_slot from ledger_balance where owner = ${owner}`.execute(tx.db);
      await sql`update ledger_balance set count = count + ${rows.length}, last_slot = ${block.slot}
        where owner = ${owner}`.execute(tx.db);
    },
    async revert(tx, header) {
      const before = await sql<{ count: number; last_slot: number }>`select count, last_slot from ledger_undo
        where owner = ${owner} and slot = ${header.slot}`.execute(tx.db);
      const row = before.rows[0];
      if (row === undefined)
        throw new Error(`no undo row for slot ${header.slot}: reverted without having been applied`);
      await sql`update ledger_balance set count = ${row.count}, last_slot = ${row.last_slot}
        where owner = ${owner} and last_slot = ${header.slot}`.execute(tx.db);
      await sql`delete from ledger_undo where owner = ${owner} and slot = ${header.slot}`.execute(tx.db);
      await sql`delete from ledger_entries where owner = ${owner} and slot = ${header.slot}`.execute(tx.db);
    },
    async finalized(tx, slot) {
      await sql`delete from ledger_undo where owner = ${owner} and slot <= ${slot}`.execute(tx.db);
    },
  };
}

export interface LedgerView {
  /** `slot:signature`, ordered. */
  readonly entries: readonly string[];
  readonly count: number;
  readonly lastSlot: number;
}

/** What the processor has written. */
export async function readLedger(store: Store, owner = 'ledger@1'): Promise<LedgerView> {
  const entries = await tables(store.read)
    .selectFrom('ledger_entries')
    .select(['slot', 'signature'])
    .where('owner', '=', owner)
    .orderBy('slot')
    .orderBy('signature')
    .execute();
  const balance = await tables(store.read)
    .selectFrom('ledger_balance')
    .select(['count', 'last_slot'])
    .where('owner', '=', owner)
    .executeTakeFirst();
  return {
    entries: entries.map(({ slot, signature }) => `${slot}:${signature}`),
    count: balance?.count ?? 0,
    lastSlot: balance?.last_slot ?? -1,
  };
}
