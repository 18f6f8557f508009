import { existsSync, rmSync } from 'node:fs';
import { resolve } from 'node:path';
import { migrationScopes } from '../../daemon/migrations.ts';
import { CodedError } from '../../lib/coded-error.ts';
import type { MigrationScope, Store } from '../../ports/store.ts';
import { EXIT } from '../../runtime/errors.ts';
import { foreignObjects } from '../../store/inspect.ts';
import { migrate } from '../../store/migrate.ts';
import { openSqliteStore } from '../../store/sqlite.ts';
import type { RunCommand } from '../command.ts';
import { loadCliConfig } from '../load-config.ts';
import { assembleOffline } from '../offline.ts';
import { findRunFile } from '../run-file.ts';
import { backUp, embeddedFile } from './backup.ts';

/** A log file of another database next to the restored one would corrupt it. */
const ENDINGS = ['', '-wal', '-shm'];
/** Number of objects listed in a refusal. */
const SHOWN = 10;

export const run: RunCommand = async (values, io) => {
  const config = await loadCliConfig(values, io);
  const dataDir = resolve(io.cwd, config.core.dataDir);
  if (findRunFile(dataDir) !== null)
    throw new CodedError('DAEMON_RUNNING', 'stop the daemon first', { exitCode: EXIT.temporary });
  const to = embeddedFile(config, dataDir);
  const from = resolve(io.cwd, String(values['input']));
  for (const ending of ENDINGS)
    if (existsSync(to + ending)) throw refused(`${to}${ending} already exists: move it away first`);
  if (!existsSync(from)) throw refused(`no such file: ${from}`);
  const { plugins } = await assembleOffline(config);
  await backUp('restore', { from, to }, io);
  const { busyTimeoutMs } = config.core.store;
  const steps = await pendingSteps(to, busyTimeoutMs, migrationScopes(plugins)).catch((error) => {
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
