import type { StoreTx } from '../../../src/plugin/plugin.ts';
import type { Db } from './tables.ts';

/** Names of what is remembered beside the rows. */
export const NOTES = {
  /** Newest slot of the snapshot that was loaded: what comes after it is indexed from blocks. */
  snapshotSlot: 'snapshot',
  genesisHash: 'genesis',
} as const;

/** Names of the notes of trees of which spends are in doubt begin with it. */
export const DOUBT = 'doubt:';
/** Values of those notes: the tree is being read again, or it has been and is right. */
export const READING = 'reading';
export const READ = 'read';

export const doubtNote = (tree: number): string => `${DOUBT}${tree}`;

export async function readNote(db: Db, name: string): Promise<string | null> {
  const row = await db.selectFrom('compression_notes').select('value').where('name', '=', name).executeTakeFirst();
  return row?.value ?? null;
}

export async function writeNote({ db }: StoreTx, name: string, value: string): Promise<void> {
  await (db as Db)
    .insertInto('compression_notes')
    .values({ name, value })
    .onConflict((conflict) => conflict.column('name').doUpdateSet({ value }))
    .execute();
}
