import type { StoreTx } from '../../../src/kernel/plugin.ts';
import type { Db, TreeRow } from '../store/tables.ts';

/**
 * Forgets what waits for a tree where only reading it again can tell what it is: its events, addresses, and the places of nullifiers.
 * Accounts that wait stay; reading them again drops those that never were. What is spent stays spent.
 */
export async function emptyQueues({ db }: StoreTx, { id }: TreeRow): Promise<void> {
  await (db as Db).deleteFrom('compression_pending').where('tree', '=', id).execute();
  await (db as Db).deleteFrom('compression_address_queue').where('tree', '=', id).execute();
  await (db as Db)
    .updateTable('compression_accounts')
    .set({ nullifier: null, nullifier_index: null, tx_hash: null })
    .where('tree', '=', id)
    .where('nullifier_index', 'is not', null)
    .where('nullified', '=', 0)
    .execute();
}
