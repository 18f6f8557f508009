import type { MintTransferFee } from '../../../src/ports/token-facts.ts';

const SLOTS_PER_EPOCH = 432_000n;
const ONE_IN_BASIS_POINTS = 10_000n;

/** What a mint holds back from a transfer of `amount` raw units in the epoch of a slot. */
export function withheldFee(amount: bigint, config: MintTransferFee | null, slot: number): bigint {
  if (config === null) return 0n;
  const epoch = BigInt(slot) / SLOTS_PER_EPOCH;
  const { maximum, basisPoints } = epoch >= config.newer.epoch ? config.newer : config.older;
  const fee = (amount * BigInt(basisPoints) + ONE_IN_BASIS_POINTS - 1n) / ONE_IN_BASIS_POINTS;
  return fee < maximum ? fee : maximum;
}
