import { decode32 } from '../lib/base58.ts';
import { lazy } from '../lib/lru.ts';
import type { KeyTable, NormalTransaction } from '../ports/block.ts';

const PROGRAM = lazy(() => decode32('ComputeBudget111111111111111111111111111111')!);
const SET_COMPUTE_UNIT_PRICE = 3;
const MICRO_LAMPORTS = 1_000_000n;
const U64_MAX = 0xffff_ffff_ffff_ffffn;

/**
 * Price per compute unit in addition to the base fee, in micro-lamports; 0 by default. Null for a version 1 transaction
 * without a compute unit limit: its header contains the total fee, so there is no rate.
 */
export function computeUnitPrice(transaction: NormalTransaction, keys: KeyTable): number | null {
  if (transaction.version === 1) return headerPrice(transaction);
  const program = keys.find(PROGRAM());
  if (program < 0) return 0;
  for (const { programIndex, data } of transaction.instructions) {
    if (transaction.keys[programIndex] !== program || data[0] !== SET_COMPUTE_UNIT_PRICE || data.length < 9) continue;
    // The runtime refuses a second one.
    return Number(new DataView(data.buffer, data.byteOffset).getBigUint64(1, true));
  }
  return 0;
}

/** The total fee divided by the limit, rounded down; null without a limit. */
function headerPrice({ config }: NormalTransaction): number | null {
  if (config === null || config.computeUnitLimit === null || config.computeUnitLimit === 0) return null;
  const rate = ((config.priorityFee ?? 0n) * MICRO_LAMPORTS) / BigInt(config.computeUnitLimit);
  return Number(rate < U64_MAX ? rate : U64_MAX);
}
