import { existsSync, rmSync, statSync } from 'node:fs';
import { resolve } from 'node:path';
import { createSystemClock } from '../../adapters/clock.ts';
import type { LoadedConfig } from '../../config/load.ts';
import { migrationScopes } from '../../daemon/migrations.ts';
import { CodedError, EXIT } from '../../lib/coded-error.ts';
import type { MigrationScope, Store } from '../../ports/store.ts';
import { openStore, sqliteFile } from '../../store/index.ts';
import { foreignObjects } from '../../store/inspect.ts';
import { type AppliedStep, migrate } from '../../store/migrate.ts';
import { openSqliteStore } from '../../store/sqlite.ts';
import { type CliIo, createProgress, type Progress, type RunCommand } from '../command.ts';
import { loadCliConfig } from '../load-config.ts';
import { assembleOffline } from '../offline.ts';
import { findRunFile } from '../running-daemon.ts';
import { needStoreDir } from '../store-dir.ts';

export const migrateStore: RunCommand = async (values, io) => {
  const config = await loadCliConfig(values, io);
  const { plugins } = await assembleOffline(config);
  const dryRun = values['dryRun'] === true;
  const scopes = await migrationScopes(plugins);
  const dir = needStoreDir(config, config.core.dataDir);
  const file = sqliteFile(config.core.store.url, dir);
  // Opening an embedded database creates it; a dry run must not.
  const isNew = dryRun && file !== null && !existsSync(file);
  const steps = isNew ? allSteps(scopes) : await runSteps(config.core.store, dir, scopes, dryRun);
  if (values['json'] === true) io.out(JSON.stringify({ dryRun, steps }));
  else {
    for (const step of steps)
      io.out(`${dryRun ? 'would apply' : 'applied'} ${step.scope} ${step.version}: ${step.name}`);
    if (steps.length === 0) io.out('the schema is up to date');
  }
  return EXIT.ok;
};

async function runSteps(
  config: Parameters<typeof openStore>[0],
  dir: string,
  scopes: readonly MigrationScope[],
  dryRun: boolean,
): Promise<readonly AppliedStep[]> {
  const store = await openStore(config, dir);
  try {
    return await migrate(store, scopes, { dryRun });
  } finally {
    await store.close();
  }
}

const allSteps = (scopes: readonly MigrationScope[]): AppliedStep[] =>
  scopes.flatMap(({ scope, migrations }) =>
    migrations.map(({ version, name, breaking }) => ({ scope, version, name, breaking })),
  );

export const backup: RunCommand = async (values, io) => {
  const config = await loadCliConfig(values, io);
  const from = embeddedFile(config, needStoreDir(config, config.core.dataDir));
  const to = resolve(io.cwd, String(values['output']));
  const { bytes } = await backUp('backup', { from, to }, io);
  if (values['json'] === true) io.out(JSON.stringify({ file: to, bytes }));
  else io.out(`wrote ${to}, ${bytes} bytes`);
  return EXIT.ok;
};

/** Errors: STORE_BACKUP, exit 78, if the store is a database server. */
export function embeddedFile({ core }: LoadedConfig, storeDir: string): string {
  const file = sqliteFile(core.store.url, storeDir);
  if (file !== null) return file;
  throw new CodedError('STORE_BACKUP', 'the store is a PostgreSQL database, use its own tools, such as pg_dump', {
    exitCode: EXIT.config,
  });
}

/** Copies a database file and shows the progress. Errors: those of `copyDatabaseFile`. */
export async function backUp(
  what: 'backup' | 'restore',
  files: { readonly from: string; readonly to: string },
  io: CliIo,
): Promise<{ readonly bytes: number }> {
  const { copyDatabaseFile } = await import('../../store/sqlite-backup.ts');
  let shown: Progress | null = null;
  try {
    await copyDatabaseFile({
      ...files,
      what: what === 'restore' ? 'the backup' : 'the database',
      progress(done, total) {
        shown ??= createProgress({ what, unit: 'pages', total, io, clock: createSystemClock() });
        shown.update(done);
      },
    });
  } finally {
    (shown as Progress | null)?.end();
  }
  return { bytes: statSync(files.to).size };
}

/** A log file of another database next to the restored one would corrupt it. */
const ENDINGS = ['', '-wal', '-shm'];
/** Number of objects listed in a refusal. */
const SHOWN = 10;

export const restore: RunCommand = async (values, io) => {
  const config = await loadCliConfig(values, io);
  const dataDir = config.core.dataDir;
  if (findRunFile(dataDir) !== null)
    throw new CodedError('DAEMON_RUNNING', 'stop the daemon first', { exitCode: EXIT.temporary });
  const to = embeddedFile(config, dataDir);
  const from = resolve(io.cwd, String(values['input']));
  for (const ending of ENDINGS)
    if (existsSync(to + ending)) throw refused(`${to}${ending} already exists: move it away first`);
  if (!existsSync(from)) throw refused(`no such file: ${from}`);
  const scopes = await migrationScopes((await assembleOffline(config)).plugins);
  await backUp('restore', { from, to }, io);
  const { busyTimeoutMs } = config.core.store;
  const steps = await pendingSteps(to, busyTimeoutMs, scopes).catch((error) => {
    // Remove a database that this version cannot use, or that contains foreign objects.
    for (const ending of ENDINGS) rmSync(to + ending, { force: true });
    throw error;
  });
  if (values['json'] === true) io.out(JSON.stringify({ file: to, pendingSteps: steps }));
  else io.out(`restored ${to}${steps > 0 ? `, ${steps} schema steps wait` : ''}`);
  return EXIT.ok;
};

async function pendingSteps(path: string, busyTimeoutMs: number, scopes: readonly MigrationScope[]): Promise<number> {
  const store = openSqliteStore({ path, busyTimeoutMs });
  try {
    const { length } = await migrate(store, scopes, { dryRun: true });
    await refuseForeign(path, store, busyTimeoutMs, scopes);
    return length;
  } finally {
    await store.close();
  }
}

/** A foreign trigger would run with each write of the daemon: a backup can contain code. */
async function refuseForeign(
  path: string,
  store: Store,
  busyTimeoutMs: number,
  scopes: readonly MigrationScope[],
): Promise<void> {
  const scratch = `${path}.schema`;
  const remove = () => {
    for (const ending of [...ENDINGS, '-turn']) rmSync(scratch + ending, { force: true });
  };
  remove();
  const fresh = openSqliteStore({ path: scratch, busyTimeoutMs });
  try {
    const { objects } = await foreignObjects(store, fresh, scopes);
    if (objects.length === 0) return;
    throw refused(
      `the backup contains objects that no version of this program creates: ${objects.slice(0, SHOWN).join(', ')}`,
    );
  } finally {
    await fresh.close();
    remove();
  }
}

const refused = (why: string) => new CodedError('STORE_BACKUP', why, { exitCode: EXIT.config });
