import { createSystemClock } from '../adapters/clock.ts';
import type { LoadedConfig } from '../config/load.ts';
import { type FoundPlugin, withProviders } from '../daemon/registry.ts';
import { CodedError, EXIT } from '../lib/coded-error.ts';
import type { CommandDescription } from '../plugin/host.ts';
import type { CommandIo } from '../plugin/plugin.ts';
import { type CliCommand, type CliIo, type CommandValues, createProgress } from './command.ts';
import { loadCliConfig } from './load-config.ts';
import type { OfflineAssembly } from './offline.ts';
import { findRunFiles } from './running-daemon.ts';
import { needStoreDir } from './store-dir.ts';

/**
 * The commands of the configured plugins. Built-in plugins list theirs, so only the plugins that a command needs are loaded, when it runs. A
 * plugin of others has to be provisioned to find its commands. Errors: those of the configuration and of `assemble`.
 */
export async function pluginCommands(values: CommandValues, io: CliIo): Promise<readonly CliCommand[]> {
  const config = await loadCliConfig(values, io);
  const enabled = config.plugins.filter((plugin) => plugin.enabled);
  if (enabled.every(({ builtIn }) => builtIn)) {
    return enabled.flatMap((plugin) =>
      listedCommands(plugin, enabled).map((command) =>
        toCliCommand(command, config, () => assemble(withPluginsFor(command, plugin, config))),
      ),
    );
  }
  const assembly = await assemble(config);
  return assembly.merged.commands.map((command) => toCliCommand(command, config, async () => assembly));
}

const assemble = async (config: LoadedConfig<FoundPlugin>) =>
  await (await import('./offline.ts')).assembleOffline(config);

/** The commands that a built-in plugin registers beside these plugins. */
function listedCommands({ definition }: FoundPlugin, plugins: readonly FoundPlugin[]): readonly CommandDescription[] {
  const offered = new Set(plugins.flatMap(({ definition: { offers = [] } }) => offers.map(({ id }) => id)));
  return (definition.commands ?? []).filter(({ needs = [] }) => needs.every(({ id }) => offered.has(id)));
}

/** The configuration without the plugins that a command does not need, whose sections stay. */
function withPluginsFor(
  { concernsAllPlugins }: CommandDescription,
  own: FoundPlugin,
  config: LoadedConfig<FoundPlugin>,
): LoadedConfig<FoundPlugin> {
  return concernsAllPlugins === true ? config : { ...config, plugins: withProviders([own], config.plugins) };
}

function toCliCommand(
  described: CommandDescription,
  config: LoadedConfig<FoundPlugin>,
  assembled: () => Promise<OfflineAssembly>,
): CliCommand {
  const { path, summary, argument, options } = described;
  const run = async (values: CommandValues, io: CliIo): Promise<number> => {
    const { dataDir } = config.core;
    if (described.needsStoppedDaemon === true) refuseBesideDaemon(dataDir);
    const dir = needStoreDir(config, dataDir);
    const assembly = await assembled();
    const { openExistingStore } = await import('./offline.ts');
    const command = assembly.merged.commands.find((one) => one.path.join(' ') === path.join(' '));
    if (command === undefined) throw new TypeError(`no plugin has registered the command ${path.join(' ')}`);
    const store = await openExistingStore(config, assembly, dir);
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
  return { path, summary, options, ...(argument !== undefined && { argument }), load: async () => ({ run }) };
}

function refuseBesideDaemon(dataDir: string): void {
  const [running] = findRunFiles(dataDir);
  if (running === undefined) return;
  const message = `a daemon runs with the data folder ${dataDir} (process ${running.pid}): stop it first`;
  throw new CodedError('DAEMON_RUNNING', message, { exitCode: EXIT.temporary, facts: { pid: running.pid } });
}
