import { resolve } from 'node:path';
import { EXIT } from '../../kernel/errors.ts';
import type { Readiness } from '../../kernel/health.ts';
import { askReadiness } from '../ask-daemon.ts';
import type { RunCommand } from '../command.ts';
import { loadCliConfig } from '../load-config.ts';
import { needRunFile, type RunFile } from '../run-file.ts';

export const run: RunCommand = async (values, io) => {
  const config = await loadCliConfig(values, io);
  const daemon = needRunFile(resolve(io.cwd, config.core.dataDir));
  const readiness = await askReadiness(daemon);
  if (values['json'] === true) io.out(JSON.stringify({ ...daemon, ...readiness }, null, 2));
  else for (const line of describe(daemon, readiness)) io.out(line);
  return EXIT.ok;
};

function describe(daemon: RunFile, { ready, draining, checks, chain }: Readiness): string[] {
  const state = draining ? 'draining' : ready ? 'ready' : 'not ready';
  return [
    `parhelion ${state}, process ${daemon.pid}`,
    `  API        ${daemon.api}`,
    ...(daemon.websocket === null ? [] : [`  WebSocket  ${daemon.websocket}`]),
    `  admin      ${daemon.admin}`,
    ...chain.map(
      (one) =>
        `  chain      ${one.chain}: ${one.cluster}${one.kind === 'local' ? ' (LOCAL, not a public network)' : ''}, ` +
        `cursor ${one.cursorSlot ?? '-'}, tip ${one.tipSlot ?? '-'}, behind ${one.lagSlots ?? '-'}, open gaps ${one.openGaps}`,
    ),
    ...checks.map(({ name, ok, detail }) => `  ${ok ? 'ok  ' : 'FAIL'} ${name}: ${detail}`),
  ];
}
