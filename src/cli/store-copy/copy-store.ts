import { sql } from 'kysely';
import type { MigrationScope, Store } from '../../ports/store.ts';
import { advanceIdentities, insertAsTheyAre, readTableShapes, type TableShape } from '../../store/inspect.ts';
import { COPY_TABLE, migrate } from '../../store/migrate.ts';
import {
  beginNotes,
  type Checksum,
  checksumOf,
  countRows,
  endNotes,
  keyOf,
  pagesOf,
  readTableNotes,
  refused,
  type TableNote,
  writeNote,
} from './copy-note.ts';

export interface CopyOptions {
  readonly source: Store;
  readonly target: Store;
  /** Identifies the source; no secrets. */
  readonly sourceName: string;
  readonly scopes: readonly MigrationScope[];
  readonly progress: CopyProgress;
}

export interface CopyProgress {
  /** Work of all tables: each row is copied once, and read on both sides for the comparison. */
  begin(totalRows: number): void;
  rows(count: number, table: string): void;
}

export interface CopiedTable extends Checksum {
  readonly name: string;
}

/** Tables that are not copied: the schema history, the row of the health probe, the leader, and the notes of the copy. */
const OWN_TABLES = ['parhelion_migrations', 'parhelion_probe', 'follow_leaders', COPY_TABLE];

/**
 * Copies all rows into an empty store with the same schema and compares both. An interrupted copy is resumed: each page commits together
 * with the progress. Errors: STORE_COPY, exit 78; those of `migrate` and of the stores.
 */
export async function copyStore(options: CopyOptions): Promise<readonly CopiedTable[]> {
  const { source, target, scopes, progress } = options;
  const waiting = await migrate(source, scopes, { dryRun: true });
  if (waiting.length > 0) throw refused('the source has an older schema: run parhelion migrate on it first');
  await beginNotes(target, options.sourceName);
  await migrate(target, scopes);
  const shapes = await sharedShapes(source, target);
  const notes = await readTableNotes(target);
  let total = 0;
  for (const shape of shapes) total += await countRows(source, shape);
  progress.begin(3 * total);
  for (const shape of shapes) {
    const note = notes.get(shape.name) ?? null;
    if (note !== null) progress.rows(note.rows, shape.name);
    if (note?.isDone !== true) await copyTable(options, shape, note);
  }
  const copied: CopiedTable[] = [];
  for (const shape of shapes) copied.push(await compareTable(options, shape));
  await endNotes(target);
  return copied;
}

/** The tables to copy, parents first, with the columns in one order. */
async function sharedShapes(source: Store, target: Store): Promise<readonly TableShape[]> {
  const isShared = ({ name }: TableShape) => !OWN_TABLES.includes(name);
  const from = (await readTableShapes(source)).filter(isShared);
  const to = (await readTableShapes(target)).filter(isShared);
  const unknown = from.filter(({ name }) => !to.some((shape) => shape.name === name)).map(({ name }) => name);
  if (unknown.length > 0)
    throw refused(`the source has tables of plugins that the configuration does not load: ${unknown.join(', ')}`);
  return to.map((shape) => {
    const own = from.find(({ name }) => name === shape.name);
    const isSame = own !== undefined && [...own.columns].sort().join() === [...shape.columns].sort().join();
    if (!isSame) throw refused(`the table ${shape.name} has different columns on both sides`);
    if (own.key.length === 0) throw refused(`the rows of the table ${shape.name} apart`);
    return { ...shape, key: own.key };
  });
}

async function copyTable(
  { source, target, progress }: CopyOptions,
  shape: TableShape,
  note: TableNote | null,
): Promise<void> {
  const { name } = shape;
  let { rows, last }: Pick<TableNote, 'rows' | 'last'> = note ?? { rows: 0, last: null };
  // Migrations may have inserted rows.
  if (note === null)
    await target.write(async (tx) => {
      await sql`delete from ${sql.table(name)}`.execute(tx.db);
      await writeNote(tx, name, { rows: 0, last: null, isDone: false });
    });
  for await (const page of pagesOf(source, shape, last)) {
    const next = { rows: rows + page.length, last: keyOf(shape, page.at(-1) ?? []) };
    await target.write(async (tx) => {
      await insertAsTheyAre(tx, shape, page);
      await writeNote(tx, name, { ...next, isDone: false });
    });
    ({ rows, last } = next);
    progress.rows(page.length, name);
  }
  await advanceIdentities(target, shape);
  await target.write((tx) => writeNote(tx, name, { rows, last, isDone: true }));
}

async function compareTable({ source, target, progress }: CopyOptions, shape: TableShape): Promise<CopiedTable> {
  const told = (rows: number) => progress.rows(rows, shape.name);
  const [before, after] = [await checksumOf(source, shape, told), await checksumOf(target, shape, told)];
  if (before.rows === after.rows && before.sum === after.sum) return { name: shape.name, ...after };
  throw refused(
    `the table ${shape.name} differs (${before.rows} rows in the source, ${after.rows} in the target): ` +
      'the source or the target was changed during the copy; empty the target and copy again',
  );
}
