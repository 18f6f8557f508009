/** Stores as older versions left them: their schema, made by the steps they had, and the rows of a newer one as they wrote them. */
import { sql } from 'kysely';
import type { MigrationScope, SqlValue, Store } from '../../src/ports/store.ts';
import { migrate } from '../../src/store/schema/migrations.ts';
import { advanceIdentities, readTableShapes, type TableShape } from '../../src/store/table-shapes.ts';
import { type SchemaVersions, scopesOf } from './migration-steps.ts';

type Row = Readonly<Record<string, SqlValue>>;

/** What each store has for itself. */
const OWN_TABLES = ['parhelion_migrations', 'parhelion_probe', 'follow_leaders'];

/** Columns and tables that came later are left out. */
export async function writeOlderStore(
  source: Store,
  target: Store,
  scopes: readonly MigrationScope[],
  versions: SchemaVersions,
): Promise<void> {
  await migrate(target, scopesOf(scopes, versions));
  const newer = new Map((await readTableShapes(source)).map((shape) => [shape.name, shape]));
  const shapes = (await readTableShapes(target)).filter(({ name }) => !OWN_TABLES.includes(name));
  for (const { name } of shapes.toReversed())
    await target.write(({ db }) => sql`delete from ${sql.table(name)}`.execute(db));
  for (const shape of shapes) {
    const from = newer.get(shape.name);
    if (from !== undefined) await copyRows(source, target, shape, from.columns);
    await advanceIdentities(target, shape);
  }
}

async function copyRows(
  source: Store,
  target: Store,
  { name, columns }: TableShape,
  newer: readonly string[],
): Promise<void> {
  const { rows } = await sql<Row>`select * from ${sql.table(name)}`.execute(source.read);
  const shared = columns.filter((column) => newer.includes(column));
  await target.write((tx) =>
    tx.insertMany(
      name,
      shared,
      rows.map((row) => shared.map((column) => row[column] ?? null)),
    ),
  );
}
