import { dirname } from 'node:path';
import { type LoadedConfig, pluginEntries } from '../config/load.ts';
import { assembleSchema } from '../config/schema.ts';
import { type FoundPlugin, findPlugins } from '../daemon/registry.ts';
import { builtInDir, packageDirs } from './built-in-dir.ts';

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
  const plugins = await findPlugins(pluginEntries(loaded.core.plugins), places, undefined, leaveOut);
  // The main thread logs the warnings.
  return { ...loaded, warnings: [], plugins, schema: assembleSchema(plugins) };
}
