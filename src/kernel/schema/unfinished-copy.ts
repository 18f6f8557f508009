import { sql } from 'kysely';
import { CodedError } from '../../lib/coded-error.ts';
import type { Store } from '../../ports/store.ts';
import { EXIT } from '../errors.ts';

/** Is there as long as `store copy` has not finished with this store. */
export const COPY_TABLE = 'parhelion_copy';

/** Nobody may work on half a store. Errors: STORE_COPY, exit 78. */
export async function refuseUnfinishedCopy({ dialect, read }: Store): Promise<void> {
  const look =
    dialect === 'sqlite'
      ? sql`select 1 from sqlite_master where name = ${COPY_TABLE}`
      : sql`select 1 where to_regclass(${COPY_TABLE}) is not null`;
  if ((await look.execute(read)).rows.length === 0) return;
  const what = 'the database is the target of a copy that has not finished';
  throw new CodedError('STORE_COPY', `${what}: run parhelion store copy again`, { exitCode: EXIT.config });
}
