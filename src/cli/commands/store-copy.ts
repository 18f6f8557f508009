import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { createSystemClock } from '../../adapters/clock.ts';
import { migrationScopes } from '../../daemon/migrations.ts';
import { CodedError } from '../../lib/coded-error.ts';
import { EXIT } from '../../runtime/errors.ts';
import { openStore, sqliteFile } from '../../store/index.ts';
import type { RunCommand } from '../command.ts';
import { type CliIo, createProgress, type Progress } from '../command.ts';
import { loadCliConfig } from '../load-config.ts';
import { assembleOffline } from '../offline.ts';
import { findRunFile } from '../running-daemon.ts';
import { type CopyProgress, copyStore, refused } from '../store-copy.ts';

/** Counting the rows of a large table is slow. */
const STATEMENT_TIMEOUT_MS = 3_600_000;

export const run: RunCommand = async (values, io) => {
  const config = await loadCliConfig(values, io);
  const dataDir = config.core.dataDir;
  if (findRunFile(dataDir) !== null)
    throw new CodedError('DAEMON_RUNNING', 'stop the daemon first: its writes during the copy would be missing', {
      exitCode: EXIT.temporary,
    });
  const [from, to] = [String(values['from']), String(values['to'])];
  const file = sqliteFile(from, dataDir);
  if (file !== null && !existsSync(file)) throw refused(`no such database: ${file}`);
  if (file !== null && file === sqliteFile(to, dataDir)) throw refused('source and target are the same file');
  const { plugins } = await assembleOffline(config);
  const limits = { ...config.core.store, statementTimeoutMs: STATEMENT_TIMEOUT_MS };
  const source = await openStore({ ...limits, url: from }, dataDir);
  try {
    const target = await openStore({ ...limits, url: to }, dataDir);
    const progress = showProgress(io);
    try {
      const sourceName = createHash('sha256')
        .update(file ?? from)
        .digest('hex');
      const tables = await copyStore({ source, target, sourceName, scopes: migrationScopes(plugins), progress });
      if (values['json'] === true) io.out(JSON.stringify({ tables }));
      else for (const { name, rows, sum } of tables) io.out(`${name}: ${rows} rows, ${sum.slice(0, 16)}`);
      return EXIT.ok;
    } finally {
      progress.end();
      await target.close();
    }
  } finally {
    await source.close();
  }
};

function showProgress(io: CliIo): CopyProgress & { end(): void } {
  let shown: Progress | null = null;
  let done = 0;
  return {
    begin(total) {
      shown = createProgress({ what: 'store copy', unit: 'rows', total, io, clock: createSystemClock() });
    },
    rows(count, table) {
      done += count;
      shown?.update(done, table);
    },
    end: () => shown?.end(),
  };
}
