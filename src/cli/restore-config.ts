import { dirname } from 'node:path';
import type { LoadedConfig } from '../kernel/config/load.ts';
import { pluginEntries } from '../kernel/config/plugin-entries.ts';
import { assembleSchema } from '../kernel/config/schema.ts';
import { type FoundPlugin, findPlugins } from '../kernel/plugins/registry.ts';
import { builtInDir } from './built-in-dir.ts';

/**
 * A loaded configuration with its plugins again, in a thread that was given its values: without what reads and checks files, so that
 * threads do not carry it. Errors: those of `findPlugins`.
 */
export async function restoreConfig(
  loaded: Pick<LoadedConfig, 'file' | 'core' | 'values' | 'productionEnv'>,
  cwd: string,
): Promise<LoadedConfig<FoundPlugin>> {
  const baseDir = loaded.file === null ? cwd : dirname(loaded.file);
  const plugins = await findPlugins(pluginEntries(loaded.core.plugins), { builtInDir, baseDir, packageDir: cwd });
  return { ...loaded, plugins, schema: assembleSchema(plugins) };
}
