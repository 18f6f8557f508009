import { sql } from 'kysely';
import type { MigrationScope, SqlValue, Store, StoreTx } from '../ports/store.ts';
import { appliedSteps, migrate } from './migrate.ts';

export interface TableShape {
  readonly name: string;
  readonly columns: readonly string[];
  /** Columns that identify a row: the primary key, else a unique index. */
  readonly key: readonly string[];
  /** Tables whose rows must exist first. */
  readonly parents: readonly string[];
}

/** All tables of a store, parents first. */
export async function readTableShapes(store: Store): Promise<readonly TableShape[]> {
  const shapes: TableShape[] = [];
  for (const { name, columns } of await store.read.introspection.getTables()) {
    const key = await readKey(store, name);
    shapes.push({ name, columns: columns.map((column) => column.name), key, parents: await readParents(store, name) });
  }
  return parentsFirst(shapes);
}

function parentsFirst(shapes: readonly TableShape[]): readonly TableShape[] {
  const sorted: TableShape[] = [];
  const visit = (shape: TableShape | undefined): void => {
    if (shape === undefined || sorted.includes(shape)) return;
    for (const parent of shape.parents) if (parent !== shape.name) visit(shapes.find(({ name }) => name === parent));
    sorted.push(shape);
  };
  for (const shape of shapes) visit(shape);
  return sorted;
}

interface KeyColumn {
  readonly index_name: string;
  readonly name: string;
}

/** Columns of the first unique index without nullable columns. */
async function readKey({ dialect, read }: Store, table: string): Promise<readonly string[]> {
  const query =
    dialect === 'sqlite'
      ? sql<KeyColumn>`
          select 'primary' as index_name, name, 0 as place, pk as seq from pragma_table_info(${table}) where pk > 0
          union all
          select l.name, i.name, 1, i.seqno from pragma_index_list(${table}) l, pragma_index_info(l.name) i
          where l."unique" = 1 and l.partial = 0 and not exists (
            select 1 from pragma_index_info(l.name) c left join pragma_table_info(${table}) t on t.name = c.name
            where t.name is null or (t."notnull" = 0 and t.pk = 0))
          order by place, index_name, seq`
      : sql<KeyColumn>`
          select i.indexrelid::text as index_name, a.attname as name
          from pg_index i cross join unnest(i.indkey::int2[]) with ordinality as k (attnum, seq)
          join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.attnum
          where i.indrelid = ${`"${table}"`}::regclass and i.indisunique and i.indpred is null and not exists (
            select 1 from unnest(i.indkey::int2[]) as c (attnum) left join pg_attribute n
              on n.attrelid = i.indrelid and n.attnum = c.attnum where n.attnotnull is not true)
          order by i.indisprimary desc, i.indexrelid, k.seq`;
  const { rows } = await query.execute(read);
  const first = rows[0]?.index_name;
  return rows.filter(({ index_name }) => index_name === first).map(({ name }) => name);
}

async function readParents({ dialect, read }: Store, table: string): Promise<readonly string[]> {
  const query =
    dialect === 'sqlite'
      ? sql<{ name: string }>`select distinct "table" as name from pragma_foreign_key_list(${table})`
      : sql<{
          name: string;
        }>`select distinct r.relname as name from pg_constraint c join pg_class r on r.oid = c.confrelid
          where c.contype = 'f' and c.conrelid = ${`"${table}"`}::regclass`;
  return (await query.execute(read)).rows.map(({ name }) => name);
}

/**
 * Inserts rows with explicit identity values, which PostgreSQL otherwise refuses for a `generated always as identity` column; plugins may
 * declare one. `rows` times columns must stay below the 65,535 parameters of a statement.
 */
export async function insertAsTheyAre(
  tx: StoreTx,
  { name, columns }: TableShape,
  rows: readonly (readonly SqlValue[])[],
): Promise<void> {
  if (tx.dialect === 'sqlite') return void (await tx.insertMany(name, columns, rows));
  const values = rows.map((row) => sql`(${sql.join(row)})`);
  await sql`insert into ${sql.table(name)} (${sql.join(columns.map((column) => sql.ref(column)))})
    overriding system value values ${sql.join(values)}`.execute(tx.db);
}

/** Sets the identity sequences to continue after the existing values. SQLite does so automatically. */
export async function advanceIdentities(store: Store, { name }: TableShape): Promise<void> {
  if (store.dialect !== 'postgres') return;
  const { rows } = await sql<{ column_name: string }>`select column_name from information_schema.columns
    where table_schema = current_schema() and table_name = ${name} and is_identity = 'YES'`.execute(store.read);
  for (const { column_name: column } of rows)
    await store.write(({ db }) =>
      sql`select setval(pg_get_serial_sequence(${`"${name}"`}, ${column}), max(${sql.ref(column)}))
        from ${sql.table(name)} having max(${sql.ref(column)}) is not null`.execute(db),
    );
}

interface SchemaObject {
  readonly type: string;
  readonly name: string;
  /** Only for an index or trigger: its table. */
  readonly tbl_name: string;
  readonly sql: string | null;
}

/** Differences of a database from the schema of its migrations. */
export interface ForeignObjects {
  /** `trigger a_name`, sorted. */
  readonly objects: readonly string[];
  /** Owners with steps that this program does not know. Ordinary tables may be theirs, those of the other owners not. */
  readonly unknownScopes: readonly string[];
}

/** Tables that no migration creates: the probe of the store. */
const OWN = new Set(['parhelion_probe']);

/**
 * Compares the schema of an SQLite database with the one that its applied migrations create in the empty database `fresh`. No migration
 * creates triggers, views or virtual tables: a foreign one, or a table that only looks like ours, could run code with each write of the
 * daemon, or keep it from a write. The list of applied steps is part of the database: what it claims opens only what nobody else owns.
 * Errors: those of both stores, STORE_MIGRATION.
 */
export async function foreignObjects(
  store: Store,
  fresh: Store,
  scopes: readonly MigrationScope[],
): Promise<ForeignObjects> {
  const applied = await appliedSteps(store);
  const countOf = (scope: string) => applied.filter((row) => row.scope === scope).length;
  const isKnown = (scope: string) =>
    (scopes.find((one) => one.scope === scope)?.migrations.length ?? 0) >= countOf(scope);
  const unknownScopes = [...new Set(applied.map(({ scope }) => scope))].filter((scope) => !isKnown(scope));
  const expected = new Map<string, SchemaObject & { readonly mayDiffer: boolean }>();
  for (const { scope, migrations } of scopes) {
    if (countOf(scope) === 0) continue;
    await migrate(fresh, [{ scope, migrations: migrations.slice(0, countOf(scope)) }]);
    // A later version of the owner may have altered its own tables.
    for (const one of await objectsOf(fresh))
      if (!expected.has(one.name)) expected.set(one.name, { ...one, mayDiffer: !isKnown(scope) });
  }
  const isExpected = (one: SchemaObject): boolean => {
    if (one.type !== 'table' && one.type !== 'index') return false;
    if (isVirtual(one)) return false;
    if (OWN.has(one.name)) return true;
    const same = expected.get(one.name);
    if (same !== undefined)
      return (
        same.type === one.type &&
        same.tbl_name === one.tbl_name &&
        (same.mayDiffer || plain(same.sql) === plain(one.sql))
      );
    // An unknown owner has no index on a table of a known one.
    return unknownScopes.length > 0 && (one.type === 'table' || expected.get(one.tbl_name)?.mayDiffer !== false);
  };
  const foreign = (await objectsOf(store)).filter((one) => !isExpected(one));
  return { objects: foreign.map(({ type, name }) => `${type} ${name}`).sort(), unknownScopes };
}

/** All schema objects except those that SQLite creates itself: its statistics, and indexes without a text. */
async function objectsOf({ read }: Store): Promise<readonly SchemaObject[]> {
  const { rows } = await sql<SchemaObject>`select type, name, tbl_name, sql from sqlite_master`.execute(read);
  return rows.filter(
    ({ type, name, sql: text }) =>
      !(type === 'table' && SQLITE_TABLES.has(name)) &&
      !(type === 'index' && name.startsWith('sqlite_autoindex_') && text === null),
  );
}

const SQLITE_TABLES = new Set(['sqlite_sequence', 'sqlite_stat1', 'sqlite_stat4']);

const isVirtual = ({ type, sql: text }: SchemaObject): boolean =>
  type === 'table' && !/^create\s+table\b/i.test(text ?? '');

/** SQLite versions differ in the quotes and spaces of altered tables. */
const plain = (text: string | null): string => (text ?? '').replace(/[\s"`[\]]/g, '').toLowerCase();
