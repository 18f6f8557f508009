import type { Contribution, PluginContext } from '../../src/kernel/plugin.ts';
import type { CompressionConfig } from './config.ts';

/** Puts the parts of the plugin together. */
export function assembleCompression(_ctx: PluginContext<CompressionConfig>): Contribution {
  return {};
}
