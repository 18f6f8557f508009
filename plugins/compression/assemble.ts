import type { Contribution, HostContext } from '../../src/plugin/host.ts';
import { kernelGaps } from '../../src/ports/gaps.ts';
import { createChainPart } from './chain/chain-part.ts';
import type { CompressionConfig } from './config.ts';
import { createCnft } from './das/cnft.ts';
import { createIndexing } from './indexing/processor.ts';
import { createProofMethods, createRpcFront } from './rpc/front.ts';
import { createHashing } from './trees/hashing.ts';

/** Puts the parts of the plugin together. */
export function assembleCompression(ctx: HostContext<CompressionConfig>): Contribution {
  const hashing = createHashing(ctx.metrics.counter('hashes_total', 'hashes made in Merkle trees'));
  const cnft = createCnft(ctx);
  const proofs = createProofMethods(ctx, hashing);
  const front = ctx.config.serve ? createRpcFront(ctx, proofs.factories, cnft === null ? [] : [cnft.methods]) : null;
  const chain = createChainPart(ctx, ctx.use(kernelGaps) ?? null, hashing, cnft);
  const indexing = ctx.config.index ? createIndexing(ctx, hashing, cnft, chain.startSlot) : null;
  return {
    rpc: front?.methods ?? [],
    processors: indexing === null ? [] : [indexing.processor],
    checks: chain.checks,
    routes: chain.routes,
    commands: chain.commands,
    async start() {
      await chain.start();
      if (ctx.roles.has('indexer')) await indexing?.start();
      if (ctx.roles.has('api')) front?.start();
    },
    async stop(signal) {
      await chain.stop(signal);
      indexing?.stop();
      front?.stop();
      await proofs.stop();
    },
  };
}
