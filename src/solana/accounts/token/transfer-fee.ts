import { createByteReader } from '../../byte-reader.ts';
import { attempt } from '../decoded.ts';
import { nullableKey } from '../fields.ts';
import { type Extension, findExtension } from './extensions.ts';

/** A fee on transfers, from an epoch on. */
export interface TransferFee {
  readonly epoch: bigint;
  /** Raw units. */
  readonly maximum: bigint;
  readonly basisPoints: number;
}

/** The fees of a Token-2022 mint. Keys are base58. */
export interface TransferFeeConfig {
  readonly feeAuthority: string | null;
  readonly withdrawAuthority: string | null;
  /** Raw units that the mint itself holds back. */
  readonly withheld: bigint;
  readonly older: TransferFee;
  readonly newer: TransferFee;
}

const ONE_IN_BASIS_POINTS = 10_000n;

/** The fees of a mint; null when it has none. */
export function readTransferFeeConfig(extensions: readonly Extension[]): TransferFeeConfig | null {
  const value = findExtension(extensions, 'TransferFeeConfig');
  if (value === null) return null;
  return attempt(() => {
    const reader = createByteReader(value);
    const fee = (): TransferFee => ({ epoch: reader.u64(), maximum: reader.u64(), basisPoints: reader.u16() });
    const [feeAuthority, withdrawAuthority] = [nullableKey(reader), nullableKey(reader)];
    return { feeAuthority, withdrawAuthority, withheld: reader.u64(), older: fee(), newer: fee() };
  }).value;
}

/** What of `amount` raw units is held back from a transfer in `epoch`: rounded up, and never more than the maximum. */
export function transferFee(config: TransferFeeConfig, amount: bigint, epoch: bigint): bigint {
  const { basisPoints, maximum } = epoch >= config.newer.epoch ? config.newer : config.older;
  const fee = (amount * BigInt(basisPoints) + ONE_IN_BASIS_POINTS - 1n) / ONE_IN_BASIS_POINTS;
  return fee < maximum ? fee : maximum;
}
