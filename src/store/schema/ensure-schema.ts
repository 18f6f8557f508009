import { sql } from 'kysely';
import type { CoreConfig } from '../../config/core.ts';
import { CodedError, codeOf } from '../../lib/coded-error.ts';
import type { Clock } from '../../ports/clock.ts';
import type { Log } from '../../ports/log.ts';
import type { MigrationScope, Store } from '../../ports/store.ts';
import { EXIT } from '../../runtime/errors.ts';
import { migrate, refuseNewer } from './migrations.ts';

/**
 * Brings the schema up to date, or, where the configuration keeps that for `parhelion migrate`, refuses to run on an old one.
 * Errors: those of `migrate`; STORE_COPY; STORE_MIGRATION, exit 78, when steps wait.
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
  throw new CodedError(
    'STORE_MIGRATION',
    `the schema waits for ${steps.length} steps (${names}): run parhelion migrate`,
    {
      exitCode: EXIT.config,
    },
  );
}

/** Is there as long as `store copy` has not finished with this store. */
export const COPY_TABLE = 'parhelion_copy';

/** Nobody may work on half a store. Errors: STORE_COPY, exit 78. */
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
  /** Ends the process. */
  fail(error: unknown): void;
}

interface SchemaWatch {
  start(): void;
  stop(): void;
}

/** How long a process may go on after a newer one took a step that it cannot live with. */
const INTERVAL_MS = 1_000;

/** Looks whether a newer version has migrated the store meanwhile: after a breaking step this process must not write there any more. */
export function createSchemaWatch({ store, scopes, clock, fail }: SchemaWatchOptions): SchemaWatch {
  let cancel: (() => void) | null = null;
  const schedule = () => {
    cancel = clock.timeout(INTERVAL_MS, () => void look());
  };
  async function look(): Promise<void> {
    try {
      await refuseNewer(store(), scopes);
    } catch (error) {
      // Trouble of the store is told elsewhere, and looked through here.
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
