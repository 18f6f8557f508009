import type { BlockProcessor } from '../../src/kernel/plugin.ts';
import { findPayments } from './find-payments.ts';
import { tables } from './store/tables.ts';
import type { Terms } from './terms.ts';

/** Keeps the payments of the main chain. What was claimed is never forgotten, so that nothing is given for it again. */
export function createProcessor(terms: Terms): BlockProcessor {
  return {
    name: 'signup',
    version: 1,
    chains: ['main'],
    outOfOrder: true,
    addresses: async () => [terms.treasury],
    async apply(tx, block, _chain, how) {
      const rows = findPayments(block, terms).map(({ signature, wallet, symbol, amount }) => ({
        ...{ signature, wallet, symbol, amount: String(amount), slot: block.slot },
        ...{ is_final: how?.isFinal === true ? 1 : 0, claimed_at: null, key_hash: null, project_id: null },
      }));
      if (rows.length === 0) return;
      await tables(tx.db)
        .insertInto('signup_payments')
        .values(rows)
        .onConflict((conflict) => conflict.doNothing())
        .execute();
    },
    async revert(tx, { slot }) {
      await tables(tx.db)
        .deleteFrom('signup_payments')
        .where('slot', '=', slot)
        .where('claimed_at', 'is', null)
        .execute();
    },
    async finalized(tx, slot) {
      await tables(tx.db)
        .updateTable('signup_payments')
        .set({ is_final: 1 })
        .where('is_final', '=', 0)
        .where('slot', '<=', slot)
        .execute();
    },
  };
}
