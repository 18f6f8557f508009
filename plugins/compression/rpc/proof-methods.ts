import type { PluginContext } from '../../../src/kernel/plugin.ts';
import type { CompressionConfig } from '../config.ts';
import { createProofs } from '../proofs/index.ts';
import { createProver } from '../prover/prover.ts';
import type { Hashing } from '../trees/hashing.ts';
import { knownTrees } from '../trees/known-trees.ts';
import type { MethodFactory } from './method.ts';
import { getCompressedAccountProof } from './proofs/account-proof.ts';
import { getMultipleCompressedAccountProofs } from './proofs/account-proofs.ts';
import { getMultipleNewAddressProofs, getMultipleNewAddressProofsV2 } from './proofs/address-proofs.ts';
import { getQueueElements } from './queues/elements.ts';
import { getQueueInfo } from './queues/info.ts';
import { getValidityProof } from './validity/first.ts';
import { getValidityProofV2 } from './validity/second.ts';

export interface ProofMethods {
  readonly factories: readonly MethodFactory[];
  stop(): Promise<void>;
}

export type ProofContext = Pick<
  PluginContext<CompressionConfig>,
  'config' | 'store' | 'log' | 'clock' | 'metrics' | 'outbound'
>;

/** The methods about proofs and queues. `hashing` is used by no other thread. */
export function createProofMethods(ctx: ProofContext, hashing: Hashing): ProofMethods {
  const { config } = ctx;
  const proofs = createProofs({ ...ctx, hashing, known: knownTrees(config.trees) });
  const prover = createProver(ctx);
  const withProver = { proofs, prover, proverTimeoutMs: config.proverTimeoutMs };
  return {
    factories: [
      ...([1, 2] as const).flatMap((version): MethodFactory[] => [
        ({ slots }) => getCompressedAccountProof(slots, proofs, version),
        (parts) => getMultipleCompressedAccountProofs({ ...parts, proofs }, version),
      ]),
      (parts) => getMultipleNewAddressProofs({ ...parts, proofs }),
      (parts) => getMultipleNewAddressProofsV2({ ...parts, proofs }),
      (parts) => getValidityProof({ ...parts, ...withProver }),
      (parts) => getValidityProofV2({ ...parts, ...withProver }),
      (parts) => getQueueElements({ ...parts, proofs }),
      getQueueInfo,
    ],
    stop: () => prover.close(),
  };
}
