import { resolve } from 'node:path';
import type { Readiness } from '../../http/health.ts';
import { lagSeconds } from '../../lib/chain-lag.ts';
import type { ChainStatus } from '../../ports/chain.ts';
import { ROLES } from '../../ports/daemon-view.ts';
import { EXIT } from '../../runtime/errors.ts';
import { askReadiness } from '../ask-daemon.ts';
import type { RunCommand } from '../command.ts';
import { loadCliConfig } from '../load-config.ts';
import { needRunFiles, type RunFile } from '../run-file.ts';

type ProcessStatus = Omit<RunFile, 'chain'> & Readiness;

export const run: RunCommand = async (values, io) => {
  const config = await loadCliConfig(values, io);
  const files = needRunFiles(resolve(io.cwd, config.core.dataDir));
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
