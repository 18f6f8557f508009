/** Stores as older versions left them: their schema, made by the steps they had, and the rows of a newer one as they wrote them. */
import { sql } from 'kysely';
import type { MigrationScope, SqlValue, Store } from '../../src/ports/store.ts';
import { advanceIdentities, readTableShapes, type TableShape } from '../../src/store/inspect.ts';
import { migrate } from '../../src/store/migrate.ts';
import { type SchemaVersions, scopesOf } from './migration-steps.ts';

type Row = Readonly<Record<string, SqlValue>>;

/** What each store has for itself. */
const OWN_TABLES = ['parhelion_migrations', 'parhelion_probe', 'follow_leaders'];

/** Columns and tables that came later are left out; `formerly` gives rows that were kept in another form. */
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
    if (from !== undefined) await copyRows(source, target, shape, from.columns, versions);
    await advanceIdentities(target, shape);
  }
}

async function copyRows(
  source: Store,
  target: Store,
  { name, columns }: TableShape,
  newer: readonly string[],
  versions: SchemaVersions,
): Promise<void> {
  const { rows } = await sql<Row>`select * from ${sql.table(name)}`.execute(source.read);
  const formerly = name === 'wallet_tail' && versions['wallet'] === 1 ? wholeBlocks(rows) : rows;
  const shared = columns.filter((column) => newer.includes(column));
  await target.write((tx) =>
    tx.insertMany(
      name,
      shared,
      formerly.map((row) => shared.map((column) => row[column] ?? null)),
    ),
  );
}

/** Step 2 of the wallet split what had been one blob of a block, sorted by address, into parts of the addresses. */
function wholeBlocks(parts: readonly Row[]): readonly Row[] {
  const sorted = [...parts].sort((a, b) => Number(a['part']) - Number(b['part']));
  return [...new Set(sorted.map(({ slot }) => slot as number))].map((slot) => ({
    slot,
    rows: Buffer.concat(sorted.filter((one) => one['slot'] === slot).map(({ rows }) => rows as Buffer)),
  }));
}
