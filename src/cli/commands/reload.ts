import type { ReloadReport } from '../../http/admin.ts';
import { CodedError, codeOf, messageOf } from '../../lib/coded-error.ts';
import { EXIT } from '../../runtime/errors.ts';
import type { CliIo, RunCommand } from '../command.ts';
import { loadCliConfig } from '../load-config.ts';
import { askDaemon, needRunFiles, type RunFile } from '../running-daemon.ts';

const TIMEOUT_MS = 60_000;
const POLL_MS = 100;

/** Sends SIGHUP to every process of the data folder and shows what each made of it. */
export const run: RunCommand = async (values, io) => {
  const config = await loadCliConfig(values, io);
  const processes = needRunFiles(config.core.dataDir);
  const reports = await Promise.all(processes.map(async (one) => ({ pid: one.pid, ...(await reload(one)) })));
  if (values['json'] === true) io.out(JSON.stringify({ processes: reports }, null, 2));
  else for (const report of reports) describe(report, io);
  return reports.some(({ error }) => error !== null) ? EXIT.config : EXIT.ok;
};

async function reload(daemon: RunFile): Promise<ReloadReport> {
  const before = await lastReload(daemon);
  try {
    process.kill(daemon.pid, 'SIGHUP');
  } catch (error) {
    throw unreachable(`the signal to process ${daemon.pid} failed (${codeOf(error) ?? messageOf(error)})`);
  }
  const endsAt = performance.now() + TIMEOUT_MS;
  while (performance.now() < endsAt) {
    const now = await lastReload(daemon);
    if (now !== null && now.number !== before?.number) return now;
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
  throw unreachable(`process ${daemon.pid} has not reloaded within ${TIMEOUT_MS / 1_000} s`);
}

async function lastReload(daemon: RunFile): Promise<ReloadReport | null> {
  try {
    const { text } = await askDaemon(daemon, '/v0/admin/reload');
    return (JSON.parse(text) as { last: ReloadReport | null }).last;
  } catch (error) {
    throw unreachable(`the admin listener ${daemon.admin} does not answer: ${codeOf(error) ?? messageOf(error)}`);
  }
}

const unreachable = (message: string) => new CodedError('DAEMON_UNREACHABLE', message, { exitCode: EXIT.temporary });

function describe({ pid, error, changed, restart }: ReloadReport & { readonly pid: number }, io: CliIo): void {
  if (error !== null) {
    io.err(`parhelion: process ${pid} keeps its configuration: ${error}`);
    return;
  }
  const what = changed.length === 0 ? 'nothing changed' : `in effect: ${changed.join(', ')}`;
  io.out(`process ${pid} reloaded its configuration; ${what}`);
  if (restart.length > 0) io.out(`  a restart is needed for: ${restart.join(', ')}`);
}
