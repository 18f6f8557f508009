/**
 * A store copy with rows in every table of the kernel and of all built-in plugins, from SQLite to PostgreSQL and back. Rows are made from
 * the schema, so a table that a plugin adds is part of it; one that gets no row fails the test.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
import { copyStore } from '../../../src/cli/commands/store-copy.ts';
import type { SqlValue, Store, StoreTx } from '../../../src/ports/store.ts';
import { readTableShapes, type TableShape } from '../../../src/store/inspect.ts';
import { ensureSchema, migrate } from '../../../src/store/migrate.ts';
import { allScopes } from '../../helpers/migration-steps.ts';
import { postgresDatabase, sqliteStore } from '../../helpers/store.ts';

/** What each store has for itself. */
const NOT_COPIED = ['parhelion_migrations', 'parhelion_probe', 'follow_leaders'];
const ROWS = 5;
const TEXTS = ['plain', '', 'ä 日本 😀', 'o\'clock \\ "quoted" %_', '{"json":[null]}'];
const NUMBERS = [1, 0, Number.MAX_SAFE_INTEGER, -1, 1_700_000_000_000];
/** PostgreSQL has `integer` where SQLite has one kind of number. */
const SMALL_NUMBERS = [1, 0, 2_147_483_647, -1, 7];

interface Column {
  readonly name: string;
  readonly type: string;
  readonly isRequired: boolean;
}

async function columnsOf(store: Store, table: string): Promise<readonly Column[]> {
  const { rows } = await sql<{ name: string; type: string; required: number }>`
    select name, type, "notnull" or pk > 0 as required from pragma_table_info(${table})`.execute(store.read);
  return rows.map(({ name, type, required }) => ({ name, type: type.toLowerCase(), isRequired: required === 1 }));
}

/** The columns that refer to a parent: any row of it will do, so they take its values of the same row. */
async function referencesOf(store: Store, table: string): Promise<ReadonlyMap<string, readonly [string, string]>> {
  const { rows } = await sql<{ from: string; parent: string; to: string }>`
    select "from", "table" as parent, "to" from pragma_foreign_key_list(${table})`.execute(store.read);
  return new Map(rows.map(({ from, parent, to }) => [from, [parent, to]]));
}

/** Different in each row for columns that are part of a key; the extremes of its type elsewhere. */
function valueFor({ type, isRequired }: Column, isKey: boolean, row: number): SqlValue {
  if (!isKey && !isRequired && row === ROWS - 1) return null;
  if (/blob/.test(type)) return isKey ? Buffer.from([0, 255, row]) : Buffer.alloc(row * 90, 255 - row);
  if (/text/.test(type)) return isKey ? `${TEXTS[row]}${row}` : (TEXTS[row] ?? '');
  if (isKey) return type === 'integer' ? row + 1 : row * 1e12 + 1;
  return (type === 'bigint' ? NUMBERS : SMALL_NUMBERS)[row] ?? 0;
}

/** Unique columns beside the primary key, of any index. */
async function uniqueColumns(store: Store, table: string): Promise<ReadonlySet<string>> {
  const { rows } = await sql<{ name: string }>`
    select i.name from pragma_index_list(${table}) l, pragma_index_info(l.name) i where l."unique" = 1`.execute(
    store.read,
  );
  return new Set(rows.map(({ name }) => name));
}

async function fill(store: Store): Promise<void> {
  const shapes = (await readTableShapes(store)).filter(({ name }) => !NOT_COPIED.includes(name));
  await store.write(async (tx) => {
    for (const shape of shapes) await fillTable(store, tx, shape);
  });
}

async function fillTable(store: Store, tx: StoreTx, shape: TableShape): Promise<void> {
  const columns = await columnsOf(store, shape.name);
  const references = await referencesOf(store, shape.name);
  const unique = await uniqueColumns(store, shape.name);
  const rows: SqlValue[][] = [];
  for (let row = 0; row < ROWS; row += 1) {
    const values: SqlValue[] = [];
    for (const column of columns) {
      const parent = references.get(column.name);
      if (parent === undefined) {
        values.push(valueFor(column, shape.key.includes(column.name) || unique.has(column.name), row));
        continue;
      }
      const [table, name] = parent;
      const found = await sql<Record<string, SqlValue>>`
        select ${sql.ref(name)} from ${sql.table(table)} order by 1 limit 1 offset ${row}`.execute(tx.db);
      values.push(found.rows[0]?.[name] ?? null);
    }
    rows.push(values);
  }
  await sql`delete from ${sql.table(shape.name)}`.execute(tx.db);
  await tx.insertMany(
    shape.name,
    columns.map(({ name }) => name),
    rows,
  );
}

async function contents(store: Store): Promise<ReadonlyMap<string, readonly string[]>> {
  const all = new Map<string, readonly string[]>();
  for (const { name } of await readTableShapes(store)) {
    if (NOT_COPIED.includes(name)) continue;
    const { rows } = await sql<Record<string, SqlValue>>`select * from ${sql.table(name)}`.execute(store.read);
    const lines = rows.map((row) =>
      JSON.stringify(
        Object.entries(row)
          .sort(([a], [b]) => (a < b ? -1 : 1))
          .map(([column, value]) => [column, value instanceof Uint8Array ? Buffer.from(value).toString('hex') : value]),
      ),
    );
    all.set(name, lines.sort());
  }
  return all;
}

test('a store with rows of all plugins goes to PostgreSQL and back, and every row is the same', async (t) => {
  const scopes = await allScopes();
  const source = await sqliteStore(t);
  await migrate(source, scopes);
  await fill(source);
  const expected = await contents(source);
  for (const [name, rows] of expected) assert.ok(rows.length > 0, `the table ${name} has no row: extend this test`);

  const progress = { begin: () => undefined, rows: () => undefined };
  const postgres = await (await postgresDatabase(t)).open();
  await copyStore({ source, target: postgres, sourceName: 'first', scopes, progress });
  await ensureSchema(postgres, scopes, 'manual');
  const there = await contents(postgres);
  assert.deepEqual([...there.keys()].sort(), [...expected.keys()].sort());
  for (const [name, rows] of expected) assert.deepEqual(there.get(name), rows, name);

  const back = await sqliteStore(t);
  await copyStore({ source: postgres, target: back, sourceName: 'second', scopes, progress });
  await ensureSchema(back, scopes, 'manual');
  const home = await contents(back);
  for (const [name, rows] of expected) assert.deepEqual(home.get(name), rows, name);

  // Numbers that PostgreSQL gives out go on behind those that were copied, also where it gives them out always.
  const { rows } = await postgres.write(({ db }) =>
    sql<{ id: number }>`insert into token_metadata_changes (mint, slot) values ('m', 1) returning id`.execute(db),
  );
  assert.equal(rows[0]?.id, ROWS + 1);
});
