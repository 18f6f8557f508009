import { sql } from 'kysely';
import type { MigrationScope, Store } from '../../ports/store.ts';
import { appliedSteps, migrate } from './migrations.ts';

interface SchemaObject {
  readonly type: string;
  readonly name: string;
  readonly sql: string | null;
}

/** What is in a database beside, or instead of, what migrations made. */
export interface ForeignObjects {
  /** `trigger a_name`, sorted. */
  readonly objects: readonly string[];
  /** Owners of tables that are not known here, so that only triggers and views were looked for. */
  readonly unknownScopes: readonly string[];
}

/** Tables that no migration makes: the probe of the store. */
const OWN = new Set(['parhelion_probe']);

/**
 * Compares the schema of an SQLite database with the one that its applied migrations make in the empty database `fresh`. No migration makes
 * triggers or views: whatever has one, or a table that only looks like ours, would run with each write of the daemon. Errors: of both
 * stores, STORE_MIGRATION.
 */
export async function foreignObjects(
  store: Store,
  fresh: Store,
  scopes: readonly MigrationScope[],
): Promise<ForeignObjects> {
  const applied = await appliedSteps(store);
  const countOf = (scope: string) => applied.filter((row) => row.scope === scope).length;
  const known = scopes.flatMap(({ scope, migrations }) =>
    countOf(scope) === 0 ? [] : [{ scope, migrations: migrations.slice(0, countOf(scope)) }],
  );
  await migrate(fresh, known);
  const expected = new Map((await objectsOf(fresh)).map((one) => [one.name, one]));
  const isKnown = (scope: string) =>
    (scopes.find((one) => one.scope === scope)?.migrations.length ?? 0) >= countOf(scope);
  const unknownScopes = [...new Set(applied.map(({ scope }) => scope))].filter((scope) => !isKnown(scope));
  const foreign = (await objectsOf(store)).filter((one) => {
    if (one.type !== 'table' && one.type !== 'index') return true;
    if (unknownScopes.length > 0 || OWN.has(one.name)) return false;
    const same = expected.get(one.name);
    return same === undefined || same.type !== one.type || plain(same.sql) !== plain(one.sql);
  });
  return { objects: foreign.map(({ type, name }) => `${type} ${name}`).sort(), unknownScopes };
}

/** But those that SQLite makes by itself, which are never triggers or views. */
async function objectsOf({ read }: Store): Promise<readonly SchemaObject[]> {
  const { rows } = await sql<SchemaObject>`select type, name, sql from sqlite_master`.execute(read);
  return rows.filter(({ type, name }) => !((type === 'table' || type === 'index') && name.startsWith('sqlite_')));
}

/** Versions of SQLite write quotes and spaces of altered tables differently. */
const plain = (text: string | null): string => (text ?? '').replace(/[\s"`[\]]/g, '').toLowerCase();
