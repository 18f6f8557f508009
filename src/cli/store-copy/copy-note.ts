import { sql } from 'kysely';
import { EXIT } from '../../kernel/errors.ts';
import { COPY_TABLE } from '../../kernel/schema/unfinished-copy.ts';
import { CodedError } from '../../lib/coded-error.ts';
import type { Store, StoreTx } from '../../ports/store.ts';
import type { Row } from './rows.ts';

/** How far a table has come. */
export interface TableNote {
  readonly rows: number;
  /** Key of the last row; null before the first one. */
  readonly last: Row | null;
  readonly isDone: boolean;
}

interface NoteRow {
  readonly name: string;
  readonly row_count: number;
  readonly last_key: string | null;
  readonly is_done: number;
}

/** The line that names the source. */
const SOURCE = '';

/** Marks an empty database as the target of this copy, or finds the mark. Whether the copy goes on. Errors: STORE_COPY, exit 78. */
export async function beginNotes(target: Store, source: string): Promise<boolean> {
  const tables = await target.read.introspection.getTables();
  if (!tables.some(({ name }) => name === COPY_TABLE)) {
    const [first] = tables;
    if (first !== undefined) throw refused(`the target is not empty: it has the table ${first.name}`);
    await target.write(async (tx) => {
      await sql`create table ${sql.table(COPY_TABLE)} (
        name text not null primary key, row_count bigint not null, last_key text, is_done integer not null)`.execute(
        tx.db,
      );
      await tx.insertMany(COPY_TABLE, ['name', 'row_count', 'last_key', 'is_done'], [[SOURCE, 0, source, 0]]);
    });
    return false;
  }
  const known = (await readNotes(target)).get(SOURCE);
  if (known?.last_key !== source) throw refused('the target holds the unfinished copy of another database');
  return true;
}

export async function readTableNotes(target: Store): Promise<ReadonlyMap<string, TableNote>> {
  const notes = new Map<string, TableNote>();
  for (const [name, row] of await readNotes(target))
    if (name !== SOURCE)
      notes.set(name, {
        rows: row.row_count,
        last: row.last_key === null ? null : parseKey(row.last_key),
        isDone: row.is_done === 1,
      });
  return notes;
}

/** Belongs into the transaction that writes the rows. */
export async function writeNote(tx: StoreTx, name: string, { rows, last, isDone }: TableNote): Promise<void> {
  const key = last === null ? null : writeKey(last);
  await sql`insert into ${sql.table(COPY_TABLE)} (name, row_count, last_key, is_done)
    values (${name}, ${rows}, ${key}, ${isDone ? 1 : 0})
    on conflict (name) do update set row_count = excluded.row_count, last_key = excluded.last_key,
      is_done = excluded.is_done`.execute(tx.db);
}

/** From here on the target is a store like any other. */
export async function endNotes(target: Store): Promise<void> {
  await target.write(({ db }) => sql`drop table ${sql.table(COPY_TABLE)}`.execute(db));
}

async function readNotes(target: Store): Promise<ReadonlyMap<string, NoteRow>> {
  const { rows } = await sql<NoteRow>`select * from ${sql.table(COPY_TABLE)}`.execute(target.read);
  return new Map(rows.map((row) => [row.name, row]));
}

const writeKey = (key: Row): string =>
  JSON.stringify(
    key.map((value) => (value instanceof Uint8Array ? { hex: Buffer.from(value).toString('hex') } : value)),
  );

const parseKey = (text: string): Row =>
  (JSON.parse(text) as (string | number | null | { readonly hex: string })[]).map((value) =>
    value !== null && typeof value === 'object' ? Buffer.from(value.hex, 'hex') : value,
  );

export const refused = (why: string) => new CodedError('STORE_COPY', why, { exitCode: EXIT.config });
