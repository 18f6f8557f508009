import type { Contribution, PluginContext } from '../../src/kernel/plugin.ts';
import type { CompressionConfig } from './config.ts';
import { createRpcFront } from './rpc/front.ts';
import { createProofMethods } from './rpc/proof-methods.ts';
import { createHashing } from './trees/hashing.ts';

/** Puts the parts of the plugin together. */
export function assembleCompression(ctx: PluginContext<CompressionConfig>): Contribution {
  const hashing = createHashing(ctx.metrics.counter('hashes_total', 'hashes made in Merkle trees'));
  const proofs = createProofMethods(ctx, hashing);
  const front = ctx.config.serve ? createRpcFront(ctx, proofs.factories) : null;
  return {
    rpc: front?.methods ?? [],
    start() {
      if (ctx.roles.has('api')) front?.start();
    },
    async stop() {
      front?.stop();
      await proofs.stop();
    },
  };
}
