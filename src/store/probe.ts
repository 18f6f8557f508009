import { sql } from 'kysely';
import { CodedError } from '../lib/coded-error.ts';
import type { Queries, Store } from '../ports/store.ts';

interface Beat {
  readonly beat: number;
}

/** Counts a row up, and reads it back over another connection. Errors: STORE_IO when the commit is not seen, and those of a write. */
export async function beat(write: Store['write'], read: Queries): Promise<void> {
  const count = await write(async ({ db }) => {
    await sql`create table if not exists parhelion_probe (id integer primary key, beat bigint not null)`.execute(db);
    const { rows } = await sql<Beat>`
      insert into parhelion_probe (id, beat) values (1, 1)
      on conflict (id) do update set beat = parhelion_probe.beat + 1 returning beat`.execute(db);
    return rows[0]?.beat ?? 0;
  });
  const { rows } = await sql<Beat>`select beat from parhelion_probe where id = 1`.execute(read);
  const seen = rows[0]?.beat ?? 0;
  if (count < 1 || seen < count) throw new CodedError('STORE_IO', 'a committed row could not be read back');
}
