import { statSync } from 'node:fs';
import { resolve } from 'node:path';
import { createSystemClock } from '../../adapters/clock.ts';
import type { LoadedConfig } from '../../config/load.ts';
import { CodedError } from '../../lib/coded-error.ts';
import { EXIT } from '../../runtime/errors.ts';
import { sqliteFile } from '../../store/index.ts';
import type { RunCommand } from '../command.ts';
import { type CliIo, createProgress, type Progress } from '../io.ts';
import { loadCliConfig } from '../load-config.ts';
import { needStoreDir } from '../offline.ts';

export const run: RunCommand = async (values, io) => {
  const config = await loadCliConfig(values, io);
  const from = embeddedFile(config, needStoreDir(config, resolve(io.cwd, config.core.dataDir)));
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
