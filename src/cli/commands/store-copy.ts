import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { sql } from 'kysely';
import { createSystemClock } from '../../adapters/clock.ts';
import { migrationScopes } from '../../daemon/migrations.ts';
import { CodedError, EXIT } from '../../lib/coded-error.ts';
import type { MigrationScope, SqlValue, Store, StoreTx } from '../../ports/store.ts';
import { openStore, sqliteFile } from '../../store/index.ts';
import { advanceIdentities, insertAsTheyAre, readTableShapes, type TableShape } from '../../store/inspect.ts';
import { COPY_TABLE, migrate } from '../../store/migrate.ts';
import { type CliIo, createProgress, type Progress, type RunCommand } from '../command.ts';
import { loadCliConfig } from '../load-config.ts';
import { assembleOffline } from '../offline.ts';
import { findRunFile } from '../running-daemon.ts';

/** Counting the rows of a large table is slow. */
const STATEMENT_TIMEOUT_MS = 3_600_000;

export const run: RunCommand = async (values, io) => {
  const config = await loadCliConfig(values, io);
  const dataDir = config.core.dataDir;
  if (findRunFile(dataDir) !== null)
    throw new CodedError('DAEMON_RUNNING', 'stop the daemon first: its writes during the copy would be missing', {
      exitCode: EXIT.temporary,
    });
  const [from, to] = [String(values['from']), String(values['to'])];
  const file = sqliteFile(from, dataDir);
  if (file !== null && !existsSync(file)) throw copyRefused(`no such database: ${file}`);
  if (file !== null && file === sqliteFile(to, dataDir)) throw copyRefused('source and target are the same file');
  const scopes = await migrationScopes((await assembleOffline(config)).plugins);
  const limits = { ...config.core.store, statementTimeoutMs: STATEMENT_TIMEOUT_MS };
  const source = await openStore({ ...limits, url: from }, dataDir);
  try {
    const target = await openStore({ ...limits, url: to }, dataDir);
    const progress = showProgress(io);
    try {
      const sourceName = createHash('sha256')
        .update(file ?? from)
        .digest('hex');
      const tables = await copyStore({ source, target, sourceName, scopes, progress });
      if (values['json'] === true) io.out(JSON.stringify({ tables }));
      else for (const { name, rows, sum } of tables) io.out(`${name}: ${rows} rows, ${sum.slice(0, 16)}`);
      return EXIT.ok;
    } finally {
      progress.end();
      await target.close();
    }
  } finally {
    await source.close();
  }
};

function showProgress(io: CliIo): CopyProgress & { end(): void } {
  let shown: Progress | null = null;
  let done = 0;
  return {
    begin(total) {
      shown = createProgress({ what: 'store copy', unit: 'rows', total, io, clock: createSystemClock() });
    },
    rows(count, table) {
      done += count;
      shown?.update(done, table);
    },
    end: () => shown?.end(),
  };
}

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
  if (waiting.length > 0) throw copyRefused('the source has an older schema: run parhelion migrate on it first');
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
    throw copyRefused(`the source has tables of plugins that the configuration does not load: ${unknown.join(', ')}`);
  return to.map((shape) => {
    const own = from.find(({ name }) => name === shape.name);
    const isSame = own !== undefined && [...own.columns].sort().join() === [...shape.columns].sort().join();
    if (!isSame) throw copyRefused(`the table ${shape.name} has different columns on both sides`);
    if (own.key.length === 0) throw copyRefused(`the rows of the table ${shape.name} apart`);
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
    const next = { rows: rows + page.length, last: keyValues(shape, page.at(-1) ?? []) };
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
  const report = (rows: number) => progress.rows(rows, shape.name);
  const [before, after] = [await checksumOf(source, shape, report), await checksumOf(target, shape, report)];
  if (before.rows === after.rows && before.sum === after.sum) return { name: shape.name, ...after };
  throw copyRefused(
    `the table ${shape.name} differs (${before.rows} rows in the source, ${after.rows} in the target): ` +
      'the source or the target was changed during the copy; empty the target and copy again',
  );
}

/** Progress of a table. */
export interface TableNote {
  readonly rows: number;
  /** Key of the last copied row; null before the first one. */
  readonly last: RowValues | null;
  readonly isDone: boolean;
}

interface NoteRow {
  readonly name: string;
  readonly row_count: number;
  readonly last_key: string | null;
  readonly is_done: number;
}

/** The row that identifies the source. */
const SOURCE = '';

/** Marks an empty database as the target of this copy, or finds the mark. Returns whether the copy is resumed. Errors: STORE_COPY, exit 78. */
async function beginNotes(target: Store, source: string): Promise<boolean> {
  const tables = await target.read.introspection.getTables();
  if (!tables.some(({ name }) => name === COPY_TABLE)) {
    const [first] = tables;
    if (first !== undefined) throw copyRefused(`the target is not empty: it contains the table ${first.name}`);
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
  if (known?.last_key !== source) throw copyRefused('the target holds the unfinished copy of another database');
  return true;
}

async function readTableNotes(target: Store): Promise<ReadonlyMap<string, TableNote>> {
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

/** Call in the transaction that writes the rows. */
async function writeNote(tx: StoreTx, name: string, { rows, last, isDone }: TableNote): Promise<void> {
  const key = last === null ? null : writeKey(last);
  await sql`insert into ${sql.table(COPY_TABLE)} (name, row_count, last_key, is_done)
    values (${name}, ${rows}, ${key}, ${isDone ? 1 : 0})
    on conflict (name) do update set row_count = excluded.row_count, last_key = excluded.last_key,
      is_done = excluded.is_done`.execute(tx.db);
}

/** Removes the mark: from now on the target is an ordinary store. */
async function endNotes(target: Store): Promise<void> {
  await target.write(({ db }) => sql`drop table ${sql.table(COPY_TABLE)}`.execute(db));
}

async function readNotes(target: Store): Promise<ReadonlyMap<string, NoteRow>> {
  const { rows } = await sql<NoteRow>`select * from ${sql.table(COPY_TABLE)}`.execute(target.read);
  return new Map(rows.map((row) => [row.name, row]));
}

const writeKey = (key: RowValues): string =>
  JSON.stringify(
    key.map((value) => (value instanceof Uint8Array ? { hex: Buffer.from(value).toString('hex') } : value)),
  );

const parseKey = (text: string): RowValues =>
  (JSON.parse(text) as (string | number | null | { readonly hex: string })[]).map((value) =>
    value !== null && typeof value === 'object' ? Buffer.from(value.hex, 'hex') : value,
  );

export const copyRefused = (why: string) => new CodedError('STORE_COPY', why, { exitCode: EXIT.config });

/** Small enough that a page of the widest rows takes little memory. */
const PAGE_ROWS = 500;

type RowValues = readonly SqlValue[];

/** All rows after a key, page by page, in the key order of this database. */
async function* pagesOf(
  { read }: Store,
  shape: TableShape,
  behind: RowValues | null,
): AsyncGenerator<readonly RowValues[]> {
  const { name, columns, key } = shape;
  const keys = sql.join(key.map((column) => sql.ref(column)));
  let last = behind;
  for (;;) {
    const start = last === null ? sql`` : sql`where (${keys}) > (${sql.join(last)})`;
    const { rows } = await sql<Record<string, SqlValue>>`
      select ${sql.join(columns.map((column) => sql.ref(column)))} from ${sql.table(name)}
      ${start} order by ${keys} limit ${PAGE_ROWS}`.execute(read);
    if (rows.length === 0) return;
    const page = rows.map((row) => columns.map((column) => row[column] ?? null));
    yield page;
    if (rows.length < PAGE_ROWS) return;
    last = keyValues(shape, page.at(-1) as RowValues);
  }
}

const keyValues = ({ columns, key }: TableShape, row: RowValues): RowValues =>
  key.map((column) => row[columns.indexOf(column)] ?? null);

async function countRows({ read }: Store, { name }: TableShape): Promise<number> {
  const { rows } = await sql<{ n: number }>`select count(*) as n from ${sql.table(name)}`.execute(read);
  return rows[0]?.n ?? 0;
}

export interface Checksum {
  readonly rows: number;
  /** Hexadecimal; independent of the order of the rows. */
  readonly sum: string;
}

/** Reads a whole table. The checksum adds the hashes of all rows, because two databases may order text differently. */
async function checksumOf(store: Store, shape: TableShape, read: (rows: number) => void): Promise<Checksum> {
  const words = new Uint32Array(8);
  let rows = 0;
  for await (const page of pagesOf(store, shape, null)) {
    for (const row of page) {
      const digest = hashOf(row);
      for (let at = 0; at < words.length; at += 1) words[at] = (words[at] ?? 0) + digest.readUInt32LE(at * 4);
    }
    rows += page.length;
    read(page.length);
  }
  return { rows, sum: Buffer.from(words.buffer).toString('hex') };
}

function hashOf(row: RowValues): Buffer {
  const hash = createHash('sha256');
  for (const value of row) {
    const bytes = value instanceof Uint8Array ? value : Buffer.from(String(value));
    const kind = value === null ? 'n' : value instanceof Uint8Array ? 'b' : typeof value === 'string' ? 't' : 'i';
    hash.update(`${kind}${bytes.length}:`).update(bytes);
  }
  return hash.digest();
}
