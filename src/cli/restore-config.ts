import { dirname } from 'node:path';
import { type LoadedConfig, pluginEntries } from '../config/load.ts';
import { assembleSchema } from '../config/schema.ts';
import { type FoundPlugin, findPlugins } from '../daemon/registry.ts';
import { builtInDir, packageDirs } from './built-in-dir.ts';

/**
 * A loaded configuration again with the plugins that a thread needs, in the thread that was given its values: without what reads and checks files, so that
 * threads do not carry it. Errors: those of `findPlugins`.
 */
export async function restoreConfig(
  loaded: Pick<LoadedConfig, 'file' | 'core' | 'values' | 'productionEnv'>,
  cwd: string,
  leaveOut: readonly string[],
): Promise<LoadedConfig<FoundPlugin>> {
  const baseDir = loaded.file === null ? cwd : dirname(loaded.file);
  const places = { builtInDir, baseDir, packageDirs: packageDirs(loaded.file) };
  const plugins = await findPlugins(pluginEntries(loaded.core.plugins), places, undefined, leaveOut);
  // Warnings are the main thread's to write.
  return { ...loaded, warnings: [], plugins, schema: assembleSchema(plugins) };
}
