import type { ReloadReport } from '../../http/admin.ts';
import type { Readiness } from '../../http/health.ts';
import { CodedError, codeOf, EXIT, messageOf } from '../../lib/coded-error.ts';
import { lagSeconds } from '../../lib/slot-length.ts';
import type { ChainStatus } from '../../ports/chain.ts';
import { ROLES } from '../../ports/daemon-view.ts';
import type { CliIo, RunCommand } from '../command.ts';
import { loadCliConfig } from '../load-config.ts';
import { askDaemon, askReadiness, needRunFiles, type RunFile } from '../running-daemon.ts';

type ProcessStatus = Omit<RunFile, 'chain'> & Readiness;

export const showStatus: RunCommand = async (values, io) => {
  const config = await loadCliConfig(values, io);
  const files = needRunFiles(config.core.dataDir);
  const all = await Promise.all(
    files.map(async (file): Promise<ProcessStatus> => ({ ...file, ...(await askReadiness(file)) })),
  );
  const [first, ...others] = all;
  // The first process is also at the top level, for scripts that expect a single one.
  if (values['json'] === true) io.out(JSON.stringify({ ...first, processes: all }, null, 2));
  else for (const line of [first!, ...others].flatMap(describe)) io.out(line);
  return EXIT.ok;
};

function describe(status: ProcessStatus): string[] {
  const { ready, draining, checks, chain, roles } = status;
  const state = draining ? 'draining' : ready ? 'ready' : 'not ready';
  const only = roles.length === ROLES.length ? '' : `, only ${roles.join(' and ')}`;
  return [
    `parhelion ${state}, process ${status.pid}${only}`,
    ...(status.api === null ? [] : [`  API        ${status.api}`]),
    ...(status.websocket === null ? [] : [`  WebSocket  ${status.websocket}`]),
    `  admin      ${status.admin}`,
    ...chain.map(
      (one) =>
        `  chain      ${one.kind === 'local' ? 'the local chain (not a public network)' : `${one.chain}: ${one.cluster}`}, ` +
        `cursor ${one.cursorSlot ?? '-'}, tip ${one.tipSlot ?? '-'}, behind ${one.lagSlots ?? '-'}${lagOf(one)}, open gaps ${one.openGaps}${slotOf(one)}${leaderOf(one)}`,
    ),
    ...checks.map(({ name, ok, detail }) => `  ${ok ? 'ok  ' : 'FAIL'} ${name}: ${detail}`),
  ];
}

function lagOf(status: ChainStatus): string {
  const seconds = lagSeconds(status);
  return seconds === null ? '' : ` (${Math.round(seconds)} s)`;
}

const slotOf = ({ slotMs }: ChainStatus): string => (slotMs === null ? '' : `, slots of ${Math.round(slotMs)} ms`);

function leaderOf({ leader, isStandby }: ChainStatus): string {
  if (leader === undefined) return '';
  return `, ${isStandby === true ? 'standing by for' : 'followed by'} ${leader.name ?? 'nobody'}`;
}

/** Every process of the data folder must answer. */
export const healthcheck: RunCommand = async (values, io) => {
  const config = await loadCliConfig(values, io);
  const processes = needRunFiles(config.core.dataDir);
  const path = values['ready'] === true ? '/readyz' : '/healthz';
  const troubles = await Promise.all(processes.map((one) => troubleOf(one, path)));
  const found = troubles.filter((trouble) => trouble !== null);
  if (values['json'] === true) io.out(JSON.stringify({ ok: found.length === 0, path, troubles: found }));
  else for (const trouble of found) io.err(`parhelion: DAEMON_UNREACHABLE: ${trouble}`);
  return found.length === 0 ? EXIT.ok : EXIT.temporary;
};

async function troubleOf(daemon: RunFile, path: string): Promise<string | null> {
  try {
    const { status } = await askDaemon(daemon, path);
    return status === 200 ? null : `${path} of process ${daemon.pid} answered ${status}`;
  } catch (error) {
    return `${path} of process ${daemon.pid} did not answer: ${messageOf(error)}`;
  }
}

const TIMEOUT_MS = 60_000;
const POLL_MS = 100;

/** Sends SIGHUP to every process of the data folder and shows what each made of it. */
export const reload: RunCommand = async (values, io) => {
  const config = await loadCliConfig(values, io);
  const processes = needRunFiles(config.core.dataDir);
  const reports = await Promise.all(processes.map(async (one) => ({ pid: one.pid, ...(await reloadOne(one)) })));
  if (values['json'] === true) io.out(JSON.stringify({ processes: reports }, null, 2));
  else for (const report of reports) showReload(report, io);
  return reports.some(({ error }) => error !== null) ? EXIT.config : EXIT.ok;
};

async function reloadOne(daemon: RunFile): Promise<ReloadReport> {
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

function showReload({ pid, error, changed, restart }: ReloadReport & { readonly pid: number }, io: CliIo): void {
  if (error !== null) {
    io.err(`parhelion: process ${pid} keeps its configuration: ${error}`);
    return;
  }
  const what = changed.length === 0 ? 'nothing changed' : `in effect: ${changed.join(', ')}`;
  io.out(`process ${pid} reloaded its configuration; ${what}`);
  if (restart.length > 0) io.out(`  a restart is needed for: ${restart.join(', ')}`);
}
