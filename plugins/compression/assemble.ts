import type { Contribution, PluginContext } from '../../src/kernel/plugin.ts';
import type { CompressionConfig } from './config.ts';
import { createRpcFront } from './rpc/front.ts';

/** Puts the parts of the plugin together. */
export function assembleCompression(ctx: PluginContext<CompressionConfig>): Contribution {
  const front = ctx.config.serve ? createRpcFront(ctx) : null;
  return {
    rpc: front?.methods ?? [],
    start() {
      if (ctx.roles.has('api')) front?.start();
    },
    stop() {
      front?.stop();
    },
  };
}
