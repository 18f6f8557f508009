import type { Queries, StoreTx } from '../../../src/ports/store.ts';
import type { Db } from './tables.ts';

/** Projects whose deliveries wait for credits. */
export async function pausedProjects(db: Queries): Promise<ReadonlySet<string>> {
  const rows = await (db as Db).selectFrom('webhook_pauses').select('project_id').execute();
  return new Set(rows.map((row) => row.project_id));
}

/** Returns whether it was not paused before. */
export async function pauseProject(tx: StoreTx, projectId: string, since: number): Promise<boolean> {
  const row = await (tx.db as Db)
    .insertInto('webhook_pauses')
    .values({ project_id: projectId, since })
    .onConflict((conflict) => conflict.column('project_id').doNothing())
    .returning('project_id')
    .executeTakeFirst();
  return row !== undefined;
}

export async function endPause(tx: StoreTx, projectId: string): Promise<void> {
  await (tx.db as Db).deleteFrom('webhook_pauses').where('project_id', '=', projectId).execute();
}
