import { resolve } from 'node:path';
import { createSystemClock } from '../adapters/clock.ts';
import { CodedError } from '../lib/coded-error.ts';
import type { Command, CommandIo } from '../plugin/plugin.ts';
import { EXIT } from '../runtime/errors.ts';
import type { CliCommand, CommandValues } from './command.ts';
import { type CliIo, createProgress } from './io.ts';
import { loadCliConfig } from './load-config.ts';
import { assembleOffline, needStoreDir, type OfflineAssembly, openMigratedStore } from './offline.ts';
import { findRunFiles } from './run-file.ts';

/**
 * The commands of the configured plugins. For help, a configuration that cannot be loaded only hides them.
 */
export async function loadPluginCommands(args: readonly string[], io: CliIo): Promise<CliCommand[]> {
  const first = args[0];
  const wantsHelp = first === undefined || first === 'help' || args.includes('--help') || args.includes('-h');
  if (first === '--version' || first === '-V') return [];
  try {
    const assembly = await assembleOffline(await loadCliConfig(commonValues(args), io));
    return assembly.merged.commands.map((command) => toCliCommand(command, assembly));
  } catch (error) {
    if (wantsHelp) return [];
    throw error;
  }
}

/** The values of the common flags, read before the command is known. */
function commonValues(args: readonly string[]): CommandValues {
  const given = (flag: string): string | undefined => {
    const joined = args.find((arg) => arg.startsWith(`${flag}=`));
    if (joined !== undefined) return joined.slice(flag.length + 1);
    const at = args.indexOf(flag);
    return at < 0 ? undefined : args[at + 1];
  };
  return { config: given('--config'), dataDir: given('--data-dir') };
}

function toCliCommand(command: Command, assembly: OfflineAssembly): CliCommand {
  const run = async (values: CommandValues, io: CliIo): Promise<number> => {
    const { core } = assembly.config;
    if (command.needsStoppedDaemon === true) refuseBesideDaemon(resolve(io.cwd, core.dataDir));
    const dir = needStoreDir(assembly.config, resolve(io.cwd, core.dataDir));
    const store = await openMigratedStore(assembly, dir);
    // Services used by a plugin's command work on the store as in a daemon.
    assembly.store.set(store);
    try {
      const commandIo: CommandIo = {
        line: (text) => io.out(text),
        json: (value) => io.out(JSON.stringify(value)),
        store,
        program: io.program,
        progress: (work) => createProgress({ ...work, io, clock: createSystemClock() }),
      };
      await command.run(values, commandIo);
    } finally {
      await store.close();
      await assembly.bus.close();
    }
    return EXIT.ok;
  };
  return { path: command.path, summary: command.summary, options: command.options, load: async () => ({ run }) };
}

function refuseBesideDaemon(dataDir: string): void {
  const [running] = findRunFiles(dataDir);
  if (running === undefined) return;
  const message = `a daemon runs with the data folder ${dataDir} (process ${running.pid}): stop it first`;
  throw new CodedError('DAEMON_RUNNING', message, { exitCode: EXIT.temporary, facts: { pid: running.pid } });
}
