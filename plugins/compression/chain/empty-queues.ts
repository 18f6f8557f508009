import type { StoreTx } from '../../../src/kernel/plugin.ts';
import type { Db, TreeRow } from '../store/tables.ts';

/**
 * Forgets what waits for a tree where only reading it again can tell what it is: its events and addresses. Accounts that wait stay;
 * reading them again drops those that never were.
 */
export async function emptyQueues({ db }: StoreTx, { id }: TreeRow): Promise<void> {
  await (db as Db).deleteFrom('compression_pending').where('tree', '=', id).execute();
  await (db as Db).deleteFrom('compression_address_queue').where('tree', '=', id).execute();
}
