import { setImmediate } from 'node:timers/promises';
import { createLog } from '../../adapters/log.ts';
import { createNotify, inheritedSockets } from '../../adapters/notify.ts';

import { shrinkHeap } from '../../adapters/shrink-heap.ts';
import { apiProcesses, type CoreConfig } from '../../config/core.ts';
import type { LoadedConfig } from '../../config/load.ts';
import { createDaemon, type Daemon } from '../../daemon/daemon.ts';
import { handleSignals } from '../../daemon/lifecycle.ts';
import type { DaemonParts } from '../../daemon/parts.ts';
import type { FoundPlugin } from '../../daemon/registry.ts';
import { createSupervision, type Supervision } from '../../daemon/supervision.ts';
import { CodedError, codeOf, EXIT, messageOf } from '../../lib/coded-error.ts';
import { ROLES, type Role } from '../../ports/daemon-view.ts';
import type { Log } from '../../ports/telemetry.ts';
import { sqliteFile } from '../../store/index.ts';
import type { CliIo, CommandValues, RunCommand } from '../command.ts';
import { chainSetups, composeParts } from '../compose.ts';
import { chooseUpstream, loadCliConfig } from '../load-config.ts';
import { type LocalChain, localChainBanner, startConfiguredChain, welcome } from '../local-chain.ts';
import { readCommit, readVersion } from '../package-files.ts';
import { refuseSecond, removeRunFile, writeRunFile } from '../running-daemon.ts';
import { chooseRoles, splitRoles, startWorkers } from '../workers.ts';

export const run: RunCommand = async (values, io) => {
  try {
    return await runDaemon(values, io);
  } catch (error) {
    // Without a configuration the log format is the default.
    if (!writesJson('auto', io)) throw error;
    return writeFatal(createLog({ level: 'fatal', format: 'json' }), error);
  }
};

async function runDaemon(values: CommandValues, io: CliIo): Promise<number> {
  const roles = chooseRoles(values, io);
  const config = await loadCliConfig(values, io, { needs: 'serve' });
  const choice = chooseUpstream(config);
  if (choice === 'local' && roles.length < ROLES.length) {
    throw new CodedError('CONFIG_INVALID', 'the local chain lives in one process: --role needs an upstream', {
      exitCode: EXIT.config,
    });
  }
  const dataDir = config.core.dataDir;
  const isEmbedded = choice === 'local' || sqliteFile(config.core.store.url, dataDir) !== null;
  if (isEmbedded && roles.length === ROLES.length) await refuseSecond(dataDir);
  const chain = choice === 'local' ? await startConfiguredChain(config.core, dataDir) : null;
  if (chain !== null && isForPeople(config, io)) for (const line of localChainBanner(chain, io.program)) io.out(line);
  try {
    return await serve({ config, roles, chain, dataDir, values, io });
  } finally {
    await chain?.stop();
  }
}

/** A fatal error is a log line if programs read the log, otherwise plain text. */
const writesJson = (format: CoreConfig['log']['format'], io: CliIo): boolean =>
  format === 'json' || (format === 'auto' && !io.isTerminal);

/** Whether text may stand between the lines of the log: where programs read it, each line is JSON. */
const isForPeople = ({ core, file }: LoadedConfig<FoundPlugin>, io: CliIo): boolean =>
  core.log.format !== 'json' && (file === null || !writesJson(core.log.format, io));

/** Returns the exit code. */
function writeFatal(log: Log, error: unknown): number {
  const exitCode = exitCodeOf(error);
  const problems = error instanceof CodedError ? error.facts['problems'] : undefined;
  const fields = { code: codeOf(error) ?? null, exitCode, ...(problems === undefined ? {} : { problems }) };
  log.fatal(exitCode === EXIT.bug ? { ...fields, err: error } : fields, messageOf(error));
  return exitCode;
}

const exitCodeOf = (error: unknown): number => (error instanceof CodedError ? (error.exitCode ?? EXIT.bug) : EXIT.bug);

/** Writes a fatal error; `text` is for people. */
type SayFatal = (error: unknown, text: string) => void;

interface Serving {
  readonly config: LoadedConfig<FoundPlugin>;
  readonly roles: readonly Role[];
  readonly chain: LocalChain | null;
  readonly dataDir: string;
  readonly values: CommandValues;
  readonly io: CliIo;
}

/** The stages of the main thread's daemon start and stop the workers; their handles outlive it. */
async function serve(serving: Serving): Promise<number> {
  const { config, roles, chain, io } = serving;
  const { main, threads } = splitRoles(roles, chain !== null && config.file === null);
  const log = createLog({ ...config.core.log, role: main.length === 1 ? main[0]! : 'main' });
  const fatal = (error: unknown, text: string) => {
    if (writesJson(config.core.log.format, io)) writeFatal(log, error);
    else io.err(`parhelion: ${text}`);
  };
  const [version, commit] = [readVersion(), readCommit()];
  const kind = chain === null ? 'rpc' : 'local';
  const origin = { version, ...(commit === null ? {} : { commit }), config: config.file, dataDir: serving.dataDir };
  log.info(
    { ...origin, roles, chain: kind, ...(chain === null ? {} : { genesisHash: chain.genesisHash }) },
    'starting',
  );
  if (chain !== null)
    log.info({ rpcUrl: chain.rpcUrl, websocketUrl: chain.wsUrl, engine: chain.engine }, 'a local chain runs');
  for (const warning of config.warnings) log.warn({}, warning);
  const release = onUncaught(log, (text) => (writesJson(config.core.log.format, io) ? undefined : io.err(text)));
  const local = chain === null ? null : { url: chain.rpcUrl, websocketUrl: chain.wsUrl };
  const place = {
    dataDir: chain?.storeDir ?? serving.dataDir,
    version,
  };
  const workers = startWorkers({
    roles: threads,
    furtherProcesses: main.includes('api') ? apiProcesses(config.core) - 1 : 0,
    config,
    local,
    cwd: io.cwd,
    log,
    ...place,
  });
  const parts = composeParts(config.core, log, workers.shared, config.file);
  try {
    const daemon = await createDaemon({
      config,
      parts,
      ...place,
      commit,
      roles: new Set(main),
      workers: workers.threads,
      apiProcesses: workers.apiProcesses,
      chains: chainSetups(config.core, local),
      firstProject: main.includes('api') ? firstProject(config, io) : null,
      firstOperator: main.includes('api') && config.file === null && !config.productionEnv,
      sockets: inheritedSockets(io.env, process.pid),
    });
    return await untilStopped(serving, daemon, parts, fatal);
  } catch (error) {
    if (!writesJson(config.core.log.format, io)) throw error;
    return writeFatal(log, error);
  } finally {
    await workers.end();
    await parts.bus.close();
    release();
  }
}

/** Runs the daemon from start to stop; returns the exit code. */
async function untilStopped(
  serving: Serving,
  daemon: Daemon,
  { clock, log }: DaemonParts,
  fatal: SayFatal,
): Promise<number> {
  const { config, roles, chain, dataDir, io } = serving;
  const notify = createNotify({ env: io.env, pid: process.pid, log });
  const supervision = createSupervision({ notify, clock, log, load: daemon.load, probe: daemon.probe });
  supervision.starting();
  const ending = new AbortController();
  const end = untilEnd(serving, daemon, supervision, {
    fatal,
    note: (reason) => log.info({ reason }, 'stop requested'),
  });
  const started = daemon.start().then(async () => {
    const addresses = daemon.addresses();
    const kind = chain === null ? 'rpc' : 'local';
    const storeDir = chain?.storeDir ?? dataDir;
    const hasDashboard = config.plugins.some(({ id, enabled }) => id === 'dashboard' && enabled);
    const localChain = chain === null ? {} : { localChain: { url: chain.rpcUrl, websocketUrl: chain.wsUrl } };
    writeRunFile(dataDir, { pid: process.pid, roles, ...addresses, chain: kind, storeDir, ...localChain });
    // Last, below the lines of the start.
    await setImmediate();
    if (isForPeople(config, io))
      for (const line of welcome(addresses, daemon.first(), { chain: kind, program: io.program, hasDashboard }))
        io.out(line);
    chain?.goLive();
    supervision.ready();
    void shrinkHeap(clock, ending.signal);
  });
  // The daemon's timers do not keep the process alive: it must not end while a drain waits for one of them.
  const hold = setInterval(() => undefined, 60_000);
  try {
    // A failed start has already closed everything; a signal during the start aborts it.
    return await Promise.race([started.then(() => end.reached), end.reached]);
  } catch (error) {
    supervision.stopping(error);
    throw error;
  } finally {
    ending.abort(new Error('the daemon stops'));
    await daemon.stop();
    await started.catch(() => undefined);
    end.release();
    removeRunFile(dataDir, process.pid);
    await supervision.close();
    clearInterval(hold);
  }
}

/** An uncaught error may leave inconsistent state in memory: the process ends at once; the store survives that. */
function onUncaught(log: Log, say: (text: string) => void): () => void {
  const listener = (error: unknown) => {
    log.fatal({ err: error }, 'uncaught error');
    say(`parhelion: ${error instanceof Error ? (error.stack ?? error.message) : messageOf(error)}`);
    process.exit(EXIT.bug);
  };
  process.on('uncaughtException', listener);
  return () => void process.off('uncaughtException', listener);
}

/** A start without configuration creates a first project; a configured daemon only if a key for it is given. */
function firstProject({ file, productionEnv }: LoadedConfig, io: CliIo): { readonly key?: string } | null {
  const key = io.env['PARHELION_BOOTSTRAP_KEY'];
  if (key !== undefined && key !== '') return { key };
  return file === null && !productionEnv ? {} : null;
}

/** Resolves with the exit code at a signal, a fatal error or the end of the local chain. */
function untilEnd(
  { values, io, chain }: Serving,
  daemon: Daemon,
  supervision: Supervision,
  { fatal, note }: { readonly fatal: SayFatal; readonly note: (reason: string) => void },
) {
  let finish: (code: number) => void = () => undefined;
  const reached = new Promise<number>((resolveCode) => {
    finish = resolveCode;
  });
  const release = handleSignals(process, {
    stop(signal) {
      note(signal);
      supervision.stopping(signal);
      finish(EXIT.ok);
    },
    force: () => process.exit(EXIT.temporary),
    reload: () => void supervision.reload(() => daemon.reload(() => loadCliConfig(values, io, { needs: 'serve' }))),
  });
  chain?.onExit((reason) => {
    const text = `the local chain ended (${reason}); the next start continues it`;
    fatal(new CodedError('LOCAL_CHILD', text, { exitCode: EXIT.temporary }), text);
    supervision.stopping('the local chain ended');
    finish(EXIT.temporary);
  });
  void daemon.failed.then((error) => {
    fatal(error, `${codeOf(error) ?? 'error'}: ${messageOf(error)}`);
    supervision.stopping(error);
    finish(exitCodeOf(error));
  });
  return { reached, release };
}
