import type { StoreTx } from '../../../src/kernel/plugin.ts';
import { inList } from '../../../src/lib/in-list.ts';
import type { Db } from '../store/tables.ts';

/** Forgets what the store knows of these mints, and tells all threads that it was read before `slot` was over. */
export async function tellChanges(tx: StoreTx, mints: readonly string[], slot: number): Promise<void> {
  await (tx.db as Db)
    .deleteFrom('token_metadata_mints')
    .where(inList(tx.dialect, 'mint', mints))
    .execute();
  await tx.insertMany(
    'token_metadata_changes',
    ['mint', 'slot'],
    mints.map((mint) => [mint, slot]),
  );
}
