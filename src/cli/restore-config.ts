import { dirname } from 'node:path';
import type { LoadedConfig } from '../kernel/config/load.ts';
import { pluginEntries } from '../kernel/config/plugin-entries.ts';
import { assembleSchema } from '../kernel/config/schema.ts';
import { type FoundPlugin, findPlugins } from '../kernel/plugins/registry.ts';
import { builtInDir } from './built-in-dir.ts';

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
  const places = { builtInDir, baseDir, packageDir: cwd };
  const plugins = await findPlugins(pluginEntries(loaded.core.plugins), places, undefined, leaveOut);
  return { ...loaded, plugins, schema: assembleSchema(plugins) };
}
