/** Entry file of a worker. It loads at once and opens nothing before the command `start`. */
import { parentPort, workerData } from 'node:worker_threads';
import { createSystemClock } from '../adapters/clock.ts';
import { createLog } from '../adapters/log.ts';
import { settleHeap } from '../adapters/settle-heap.ts';
import { createLogRelay, serveCommands } from '../adapters/workers/wire.ts';
import { createDaemon, type Daemon } from '../daemon/daemon.ts';
import type { WorkerCommands } from '../ports/workers.ts';
import { createWriteLock } from '../store/write-lock.ts';
import { composeParts } from './compose.ts';
import { restoreConfig } from './restore-config.ts';
import type { RoleData } from './workers.ts';

const port = parentPort;
if (port === null) throw new Error('this module is the entry of a thread');
const data = workerData as RoleData;
const log = createLog({
  level: data.config.core.log.level,
  format: 'json',
  role: data.role,
  destination: createLogRelay(port),
});
const made = makeDaemon();
// A failure is reported to all commands, first of all to `start`.
made.catch(() => undefined);
const failed = made.then(
  (daemon) => daemon.failed,
  () => new Promise<never>(() => undefined),
);
serveCommands(port, lateCommands(made), failed);

async function makeDaemon(): Promise<Daemon> {
  const { core } = data.config;
  const lock = data.lock === null ? null : createWriteLock(data.lock.memory, data.lock.place);
  return await createDaemon({
    config: await restoreConfig(data.config, data.cwd, data.leaveOut),
    // The main thread relays messages to other processes.
    parts: composeParts(core, log, { channel: data.channel, isConnected: false, lock }, data.config.file),
    version: data.version,
    chains: data.chains,
    dataDir: data.dataDir,
    firstProject: null,
    roles: new Set([data.role]),
    isMember: true,
  });
}

/** The commands of a daemon that is still being created. */
function lateCommands(daemon: Promise<Daemon>): WorkerCommands {
  const clock = createSystemClock();
  const ended = new AbortController();
  const commands = async () => (await daemon).commands;
  return {
    start: async () => {
      await (await commands()).start();
      void settleHeap(clock, ended.signal);
    },
    ping: async () => undefined,
    checks: async () => (await commands()).checks(),
    metrics: async () => (await commands()).metrics(),
    checkConfig: async (next) => (await commands()).checkConfig(next),
    takeConfig: async (next) => (await commands()).takeConfig(next),
    drain: async () => (await commands()).drain(),
    stop: async () => {
      ended.abort(new Error('the thread ends'));
      await (await commands()).stop();
    },
  };
}
