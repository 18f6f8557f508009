import { sql } from 'kysely';
import type { BlockProcessor } from '../../src/plugin/plugin.ts';
import type { LedgerOptions } from './ledger-processor.ts';

/** Writes the same rows as the ledger of `ledger-processor.ts`, whatever the order of blocks and however often one comes. */
export function createOrderFreeLedger({
  name = 'ledger',
  version = 1,
  startSlot,
  pressure,
}: LedgerOptions = {}): BlockProcessor {
  const owner = `${name}@${version}`;
  const balance = (lastSlot: ReturnType<typeof sql>) => sql`update ledger_balance set last_slot = ${lastSlot},
    count = (select count(*) from ledger_entries where owner = ${owner}) where owner = ${owner}`;
  return {
    name,
    version,
    chains: ['main'],
    outOfOrder: true,
    ...(startSlot === undefined ? {} : { startSlot }),
    ...(pressure === undefined ? {} : { pressure }),
    async apply(tx, block) {
      const rows = block.transactions.map((transaction) => [owner, block.slot, transaction.signature] as const);
      await tx.insertMany('ledger_entries', ['owner', 'slot', 'signature'], rows, 'ignore');
      await tx.insertMany('ledger_balance', ['owner', 'count', 'last_slot'], [[owner, 0, -1]], 'ignore');
      await balance(sql`case when last_slot > ${block.slot} then last_slot else ${block.slot} end`).execute(tx.db);
    },
    async revert(tx, header) {
      await sql`delete from ledger_entries where owner = ${owner} and slot = ${header.slot}`.execute(tx.db);
      await balance(sql`${header.parentSlot}`).execute(tx.db);
    },
  };
}
