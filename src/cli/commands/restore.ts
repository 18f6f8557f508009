import { existsSync, rmSync } from 'node:fs';
import { resolve } from 'node:path';
import { openSqliteStore } from '../../adapters/store/sqlite/index.ts';
import { EXIT } from '../../kernel/errors.ts';
import { type MigrationScope, migrationScopes } from '../../kernel/schema/migration-scopes.ts';
import { migrate } from '../../kernel/schema/migrations.ts';
import { CodedError } from '../../lib/coded-error.ts';
import { backUp, embeddedFile } from '../backup.ts';
import type { RunCommand } from '../command.ts';
import { loadCliConfig } from '../load-config.ts';
import { assembleOffline } from '../offline.ts';
import { findRunFile } from '../run-file.ts';

/** A log of another database beside the restored one would spoil it. */
const ENDINGS = ['', '-wal', '-shm'];

export const run: RunCommand = async (values, io) => {
  const config = await loadCliConfig(values, io);
  const dataDir = resolve(io.cwd, config.core.dataDir);
  if (findRunFile(dataDir) !== null)
    throw new CodedError('DAEMON_RUNNING', 'stop the daemon first', { exitCode: EXIT.temporary });
  const to = embeddedFile(config, dataDir);
  const from = resolve(io.cwd, String(values['input']));
  for (const ending of ENDINGS)
    if (existsSync(to + ending)) throw refused(`${to}${ending} is there already: move it away first`);
  if (!existsSync(from)) throw refused(`there is no file ${from}`);
  const { plugins } = await assembleOffline(config);
  await backUp('restore', { from, to }, io);
  const steps = await pendingSteps(to, config.core.store.busyTimeoutMs, migrationScopes(plugins)).catch((error) => {
    // A database that this version cannot run on is not left in the place.
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
    return (await migrate(store, scopes, { dryRun: true })).length;
  } finally {
    await store.close();
  }
}

const refused = (why: string) => new CodedError('STORE_BACKUP', why, { exitCode: EXIT.config });
