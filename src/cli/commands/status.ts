import type { Readiness } from '../../http/health.ts';
import { lagSeconds } from '../../lib/chain-lag.ts';
import { messageOf } from '../../lib/coded-error.ts';
import type { ChainStatus } from '../../ports/chain.ts';
import { ROLES } from '../../ports/daemon-view.ts';
import { EXIT } from '../../runtime/errors.ts';
import type { RunCommand } from '../command.ts';
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
        `  chain      ${one.chain}: ${one.cluster}${one.kind === 'local' ? ' (LOCAL, not a public network)' : ''}, ` +
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
