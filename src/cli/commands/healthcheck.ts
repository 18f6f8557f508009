import { resolve } from 'node:path';
import { messageOf } from '../../lib/coded-error.ts';
import { EXIT } from '../../runtime/errors.ts';
import { askDaemon } from '../ask-daemon.ts';
import type { RunCommand } from '../command.ts';
import { loadCliConfig } from '../load-config.ts';
import { needRunFiles, type RunFile } from '../run-file.ts';

/** Every process of the data folder must answer. */
export const run: RunCommand = async (values, io) => {
  const config = await loadCliConfig(values, io);
  const processes = needRunFiles(resolve(io.cwd, config.core.dataDir));
  const path = values['ready'] === true ? '/readyz' : '/healthz';
  const troubles = await Promise.all(processes.map((one) => troubleOf(one, path)));
  const found = troubles.filter((trouble) => trouble !== null);
  if (values['json'] === true) io.out(JSON.stringify({ ok: found.length === 0, path, troubles: found }));
  else for (const trouble of found) io.err(`parhelion: ${trouble}`);
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
