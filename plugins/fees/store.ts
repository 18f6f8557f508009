import { sql } from 'kysely';
import type { BlockProcessor } from '../../src/plugin/plugin.ts';
import type { Migration, Queries } from '../../src/ports/store.ts';
import { packFees } from './slot-fees.ts';

/** How many slots an estimate looks back at most; slots without a priced transaction do not count. */
export const MAX_LOOKBACK_SLOTS = 150;
/** Rows of a chain whose blocks do not become final. */
const MAX_ROWS = 2_000;
/** How often, in slots, `MAX_ROWS` is looked after. */
const TRIM_EVERY = 256;

interface FeesTables {
  fees_slots: {
    slot: number;
    blockhash: string;
    /** Transactions in `fees`; 0 for a block that only shows that the chain is followed. */
    samples: number;
    /** See slot-fees.ts. */
    fees: Uint8Array;
  };
}

export const tables = (db: Queries): Queries<FeesTables> => db as Queries<FeesTables>;

export const migrations: readonly Migration[] = [
  {
    version: 1,
    name: 'create fees of slots',
    breaking: false,
    async up(tx) {
      const int = sql.raw(tx.dialect === 'sqlite' ? 'INTEGER' : 'BIGINT');
      const blob = sql.raw(tx.dialect === 'sqlite' ? 'BLOB' : 'BYTEA');
      await sql`CREATE TABLE fees_slots (
        slot ${int} PRIMARY KEY, blockhash TEXT NOT NULL, samples ${int} NOT NULL, fees ${blob} NOT NULL)`.execute(
        tx.db,
      );
    },
  },
];

/**
 * Keeps the fees of the newest slots, one row for each block: what an estimate needs is there after a restart, in every process,
 * and no block is fetched for it. Nothing that may still be taken back is pruned for being old.
 */
export function createProcessor(): BlockProcessor {
  return {
    name: 'fees',
    version: 1,
    chains: ['main'],
    wantsGaps: false,
    async apply(tx, block) {
      const { bytes, samples } = packFees(block);
      const { slot, blockhash } = block;
      await tables(tx.db)
        .insertInto('fees_slots')
        .values({ slot, blockhash, samples, fees: bytes })
        // Where the chain is indexed again from an earlier slot, its rows are still there.
        .onConflict((conflict) => conflict.column('slot').doUpdateSet({ blockhash, samples, fees: bytes }))
        .execute();
      if (block.slot % TRIM_EVERY !== 0) return;
      await sql`DELETE FROM fees_slots WHERE slot < (
        SELECT slot FROM fees_slots ORDER BY slot DESC LIMIT 1 OFFSET ${MAX_ROWS - 1})`.execute(tx.db);
    },
    async revert(tx, { slot }) {
      await tables(tx.db).deleteFrom('fees_slots').where('slot', '=', slot).execute();
    },
    async finalized(tx, slot) {
      await sql`DELETE FROM fees_slots WHERE (samples = 0 AND slot < ${slot}) OR slot < (
        SELECT slot FROM fees_slots WHERE samples > 0 AND slot <= ${slot}
        ORDER BY slot DESC LIMIT 1 OFFSET ${MAX_LOOKBACK_SLOTS - 1})`.execute(tx.db);
    },
  };
}
