import { sql } from 'kysely';
import type { CoreConfig } from '../config/core.ts';
import { CodedError, codeOf, EXIT, messageOf } from '../lib/coded-error.ts';
import type { Clock } from '../ports/clock.ts';
import type { Migration, MigrationScope, Queries, Store, StoreTx } from '../ports/store.ts';
import type { Log } from '../ports/telemetry.ts';

export interface MigrateOptions {
  /** Returns the steps that would run, and changes nothing. */
  readonly dryRun?: boolean;
  /** Sets the time of the rows; without a clock it is null. */
  readonly clock?: Clock;
  readonly log?: Log;
}

/** A step that ran, or would run. */
export interface AppliedStep {
  readonly scope: string;
  readonly version: number;
  readonly name: string;
  readonly breaking: boolean;
}

interface StepRow {
  readonly scope: string;
  readonly version: number;
  readonly name: string;
  /** 0 or 1. */
  readonly breaking: number;
  /** Unix milliseconds, or null. */
  readonly applied_at: number | null;
}

interface Tables {
  readonly parhelion_migrations: StepRow;
}

const TABLE = 'parhelion_migrations';

/**
 * Migrates the schema, scope by scope in the given order. Each step runs in a separate transaction that first inserts its row into
 * `parhelion_migrations`, so that of two concurrent processes only one runs the step. Returns the steps that ran.
 * Errors: STORE_MIGRATION (a list with holes, a renamed step, a step that failed), STORE_SCHEMA_NEWER (a breaking step of a newer
 * version is applied), and those of the store.
 */
export async function migrate(
  store: Store,
  scopes: readonly MigrationScope[],
  options: MigrateOptions = {},
): Promise<AppliedStep[]> {
  checkLists(scopes);
  const applied = await appliedSteps(store);
  checkApplied(scopes, applied, options.log);
  const pending = scopes.flatMap(({ scope, migrations }) =>
    migrations
      .filter(({ version }) => !applied.some((row) => row.scope === scope && row.version === version))
      .map((migration) => ({ scope, migration })),
  );
  if (options.dryRun !== true && pending.length > 0) await createTable(store);
  const done: AppliedStep[] = [];
  for (const { scope, migration } of pending) {
    const { version, name, breaking } = migration;
    const ran = options.dryRun === true || (await runStep(store, scope, migration, options.clock?.now() ?? null));
    if (ran) done.push({ scope, version, name, breaking });
    if (ran && options.dryRun !== true) options.log?.debug({ scope, version, name }, 'schema step applied');
  }
  if (done.length > 0 && options.dryRun !== true) {
    const changed = [...new Set(done.map(({ scope }) => scope))].join(',');
    options.log?.info({ steps: done.length, scopes: changed }, 'schema migrated');
  }
  return done;
}

/** Errors: STORE_SCHEMA_NEWER if another process has applied a breaking step that these scopes do not have. */
async function refuseNewer(store: Store, scopes: readonly MigrationScope[]): Promise<void> {
  const rows = await (store.read as Queries<Tables>).selectFrom(TABLE).selectAll().where('breaking', '<>', 0).execute();
  checkApplied(scopes, rows, undefined);
}

function checkLists(scopes: readonly MigrationScope[]): void {
  scopes.forEach(({ scope, migrations }, index) => {
    if (scopes.findIndex((other) => other.scope === scope) !== index)
      throw refused(`the scope ${scope} occurs twice`, { scope });
    migrations.forEach(({ version }, step) => {
      if (version !== step + 1) {
        throw refused(`${scope}: versions must be 1, 2, 3 without holes, but ${step + 1} is ${version}`, {
          scope,
          version,
        });
      }
    });
  });
}

/** The applied steps; empty for a new database. The rows of each scope must start at 1 and have no holes. */
export async function appliedSteps(store: Store): Promise<readonly StepRow[]> {
  if (!(await hasTable(store))) return [];
  const rows = await (store.read as Queries<Tables>)
    .selectFrom(TABLE)
    .selectAll()
    .orderBy('scope')
    .orderBy('version')
    .execute();
  rows.forEach((row, index) => {
    const before = rows[index - 1];
    const expected = before !== undefined && before.scope === row.scope ? before.version + 1 : 1;
    if (row.version !== expected) {
      throw refused(`${row.scope}: the database lacks step ${expected} but has ${row.version}`, { scope: row.scope });
    }
  });
  return rows;
}

/** Looks up the one name: listing all tables with their columns is among the slowest queries of a start. */
async function hasTable({ read, dialect }: Store): Promise<boolean> {
  const question =
    dialect === 'postgres'
      ? sql`select to_regclass(${TABLE}) as name`
      : sql`select name from sqlite_master where type = 'table' and name = ${TABLE}`;
  const { rows } = await sql<{ readonly name: string | null }>`${question}`.execute(read);
  return (rows[0]?.name ?? null) !== null;
}

function checkApplied(scopes: readonly MigrationScope[], applied: readonly StepRow[], log: Log | undefined): void {
  for (const row of applied) {
    const known = scopes.find(({ scope }) => scope === row.scope);
    // The tables of a plugin that is not loaded stay unchanged.
    if (known === undefined) continue;
    const migration = known.migrations[row.version - 1];
    const facts = { scope: row.scope, version: row.version, name: row.name };
    if (migration !== undefined) {
      if (migration.name !== row.name) {
        throw refused(
          `${row.scope}: step ${row.version} is "${row.name}" in the database, "${migration.name}" here`,
          facts,
        );
      }
    } else if (row.breaking !== 0) {
      throw new CodedError(
        'STORE_SCHEMA_NEWER',
        `the database was migrated by a newer version: ${row.scope} has step ${row.version} "${row.name}"`,
        { exitCode: EXIT.schemaNewer, facts },
      );
    } else {
      log?.warn(facts, 'the database has a schema step of a newer version, which older ones can live with');
    }
  }
}

async function createTable(store: Store): Promise<void> {
  const create = async ({ db }: StoreTx) => {
    await db.schema
      .createTable(TABLE)
      .ifNotExists()
      .addColumn('scope', 'text', (column) => column.notNull())
      .addColumn('version', 'integer', (column) => column.notNull())
      .addColumn('name', 'text', (column) => column.notNull())
      .addColumn('breaking', 'integer', (column) => column.notNull())
      .addColumn('applied_at', 'bigint')
      .addPrimaryKeyConstraint('parhelion_migrations_key', ['scope', 'version'])
      .execute();
  };
  // PostgreSQL's "if not exists" can fail when two processes create at once; the second try then finds the table.
  await store.write(create).catch(() => store.write(create));
}

/** Returns false if another process has run the step. */
async function runStep(store: Store, scope: string, migration: Migration, now: number | null): Promise<boolean> {
  const { version, name, breaking } = migration;
  try {
    return await store.write(async (tx) => {
      const row = [scope, version, name, breaking ? 1 : 0, now];
      // A concurrent process waits here for the commit of the other one, and then inserts nothing.
      const columns = ['scope', 'version', 'name', 'breaking', 'applied_at'];
      if ((await tx.insertMany(TABLE, columns, [row], 'ignore')) === 0) return false;
      await migration.up(tx);
      return true;
    });
  } catch (error) {
    // Errors of the store are thrown unchanged; an error without an exit code is a bug of the step.
    if (error instanceof CodedError && error.exitCode !== undefined) throw error;
    throw refused(`${scope}: step ${version} "${name}" failed: ${messageOf(error)}`, { scope, version, name }, error);
  }
}

function refused(message: string, facts: Record<string, unknown>, cause?: unknown): CodedError {
  return new CodedError('STORE_MIGRATION', message, { exitCode: EXIT.bug, facts, cause });
}

/**
 * Migrates the schema, or, if the configuration leaves that to `parhelion migrate`, refuses to run on an old one.
 * Errors: those of `migrate`; STORE_COPY; STORE_MIGRATION, exit 78, if steps are missing.
 */
export async function ensureSchema(
  store: Store,
  scopes: readonly MigrationScope[],
  mode: CoreConfig['store']['migrate'],
  options: { readonly clock?: Clock; readonly log?: Log } = {},
): Promise<void> {
  await refuseUnfinishedCopy(store);
  const steps = await migrate(store, scopes, { ...options, dryRun: mode === 'manual' });
  if (mode === 'auto' || steps.length === 0) return;
  const names = steps.map(({ scope, version }) => `${scope} ${version}`).join(', ');
  throw new CodedError('STORE_MIGRATION', `the schema lacks ${steps.length} steps (${names}): run parhelion migrate`, {
    exitCode: EXIT.config,
  });
}

/** Exists until `store copy` has finished with this store. */
export const COPY_TABLE = 'parhelion_copy';

/** An incomplete copy must not be used. Errors: STORE_COPY, exit 78. */
async function refuseUnfinishedCopy({ dialect, read }: Store): Promise<void> {
  const look =
    dialect === 'sqlite'
      ? sql`select 1 from sqlite_master where name = ${COPY_TABLE}`
      : sql`select 1 where to_regclass(${COPY_TABLE}) is not null`;
  if ((await look.execute(read)).rows.length === 0) return;
  const what = 'the database is the target of a copy that has not finished';
  throw new CodedError('STORE_COPY', `${what}: run parhelion store copy again`, { exitCode: EXIT.config });
}

interface SchemaWatchOptions {
  store(): Store;
  readonly scopes: readonly MigrationScope[];
  readonly clock: Clock;
  /** Reports a fatal error, which ends the process. */
  fail(error: unknown): void;
}

interface SchemaWatch {
  start(): void;
  stop(): void;
}

/** How often to check: a process may run this long after a newer one applied a breaking step. */
const INTERVAL_MS = 1_000;

/** Detects a migration by a newer version: after a breaking step this process must not write to the store any more. */
export function createSchemaWatch({ store, scopes, clock, fail }: SchemaWatchOptions): SchemaWatch {
  let cancel: (() => void) | null = null;
  const schedule = () => {
    cancel = clock.timeout(INTERVAL_MS, () => void look());
  };
  async function look(): Promise<void> {
    try {
      await refuseNewer(store(), scopes);
    } catch (error) {
      // Other errors of the store are reported elsewhere.
      if (codeOf(error) === 'STORE_SCHEMA_NEWER') return fail(error);
    }
    if (cancel !== null) schedule();
  }
  return {
    start: schedule,
    stop() {
      cancel?.();
      cancel = null;
    },
  };
}
