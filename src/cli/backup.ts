import { statSync } from 'node:fs';
import { createSystemClock } from '../adapters/clock.ts';
import { sqliteFile } from '../adapters/store/index.ts';
import type { LoadedConfig } from '../kernel/config/load.ts';
import { EXIT } from '../kernel/errors.ts';
import { CodedError } from '../lib/coded-error.ts';
import type { CliIo } from './io.ts';
import { createProgress, type Progress } from './progress.ts';

/** Errors: STORE_BACKUP, exit 78, when the store is a database server. */
export function embeddedFile({ core }: LoadedConfig, storeDir: string): string {
  const file = sqliteFile(core.store.url, storeDir);
  if (file !== null) return file;
  throw new CodedError('STORE_BACKUP', 'the store is a PostgreSQL database, which has tools of its own: pg_dump', {
    exitCode: EXIT.config,
  });
}

/** Copies a database file and shows how far it is. Errors: those of `copyDatabaseFile`. */
export async function backUp(
  what: string,
  files: { readonly from: string; readonly to: string },
  io: CliIo,
): Promise<{ readonly bytes: number }> {
  const { copyDatabaseFile } = await import('../adapters/store/sqlite/backup.ts');
  let shown: Progress | null = null;
  try {
    await copyDatabaseFile({
      ...files,
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
