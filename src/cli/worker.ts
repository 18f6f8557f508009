import { dirname } from 'node:path';
import { parentPort, workerData } from 'node:worker_threads';
import { createSystemClock } from '../adapters/clock.ts';
import { createLog } from '../adapters/log.ts';
import { shrinkHeap } from '../adapters/shrink-heap.ts';
import { joinParent } from '../adapters/workers/api-process.ts';
import { createLogRelay, parentChannel, serveCommands } from '../adapters/workers/wire.ts';
import { type LoadedConfig, pluginEntries } from '../config/load.ts';
import { assembleSchema } from '../config/schema.ts';
import { createDaemon, type Daemon } from '../daemon/daemon.ts';
import { type FoundPlugin, findPlugins, withNeeded } from '../daemon/registry.ts';
import type { WorkerCommands } from '../ports/processes.ts';
import { createWriteLock } from '../store/write-lock.ts';
import { chainSetups, composeParts } from './compose.ts';
import { builtInDir, packageDirs } from './package-files.ts';
import type { RoleData } from './workers.ts';

/** Entry file of a worker: of a thread, or of a further process of the API. It loads at once and opens nothing before the command `start`. */

const port = parentPort ?? parentChannel();
const api = parentPort === null ? joinParent() : null;
const data = (api === null ? workerData : await api.data) as RoleData;
const relay = createLogRelay(port);
const log = createLog({
  level: data.config.core.log.level,
  format: 'json',
  role: data.name,
  destination: relay,
});
const made = makeDaemon();
// A failure is reported to all commands, first of all to `start`.
made.catch(() => undefined);
const failed = made.then(
  (daemon) => daemon.failed,
  () => new Promise<never>(() => undefined),
);
serveCommands(port, lateCommands(made), failed, relay);
api?.loaded();

async function makeDaemon(): Promise<Daemon> {
  const { core } = data.config;
  const lock = data.lock === null ? null : createWriteLock(data.lock.memory, data.lock.place);
  return await createDaemon({
    config: await restoreConfig(data.config, data.cwd, data.leaveOut),
    // The main thread relays messages to other processes.
    parts: composeParts(
      core,
      log,
      { channel: data.channel, isConnected: false, lock, peers: api?.peersOf(data.processes, data.name) ?? null },
      data.config.file,
    ),
    version: data.version,
    chains: chainSetups(core, data.local),
    dataDir: data.dataDir,
    firstProject: null,
    roles: new Set([data.role]),
    isMember: true,
    ...(api === null ? {} : { handOver: api.handOver }),
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
      void shrinkHeap(clock, ended.signal);
    },
    ping: async () => undefined,
    async listen() {
      if (api !== null) await (await daemon).listen(await api.listeners);
    },
    checks: async () => (await commands()).checks(),
    metrics: async () => (await commands()).metrics(),
    takeConfig: async (next) => (await commands()).takeConfig(next),
    drain: async () => (await commands()).drain(),
    stop: async () => {
      ended.abort(new Error('the thread ends'));
      await (await commands()).stop();
    },
  };
}

/**
 * Restores a loaded configuration in a worker, from its values and the plugins that the worker needs. Does not import the code that reads
 * and checks files, to save memory. Errors: those of `findPlugins`.
 */
export async function restoreConfig(
  loaded: Pick<LoadedConfig, 'file' | 'core' | 'values' | 'productionEnv'>,
  cwd: string,
  leaveOut: readonly string[],
): Promise<LoadedConfig<FoundPlugin>> {
  const baseDir = loaded.file === null ? cwd : dirname(loaded.file);
  const places = { builtInDir, baseDir, packageDirs: packageDirs(loaded.file) };
  const found = await findPlugins(pluginEntries(loaded.core.plugins), places, undefined, leaveOut);
  const plugins = withNeeded(found, loaded.core);
  // The main thread logs the warnings.
  return {
    ...loaded,
    placeOf: (path) => path.map(String).join('.'),
    warnings: [],
    plugins,
    schema: assembleSchema(plugins),
  };
}
