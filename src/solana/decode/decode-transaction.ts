import type { ChainBlock } from '../../ports/block.ts';
import { decodeEntries } from './decode-block.ts';
import { badBlock } from './faults.ts';

/**
 * Decodes the parsed result of `getTransaction` (encoding base64, base58 or json) as a block of one transaction. What the
 * node does not tell is empty: blockhash and previousBlockhash are '', blockHeight is null, parentSlot is the slot before, and the
 * transaction has index 0. Errors as `decodeBlock`.
 */
export function decodeTransaction(result: unknown): ChainBlock {
  const { slot, blockTime } = (result ?? {}) as { slot?: unknown; blockTime?: unknown };
  if (!Number.isSafeInteger(slot)) throw badBlock(-1, 'slot is missing');
  return {
    slot: slot as number,
    parentSlot: Math.max(0, (slot as number) - 1),
    blockhash: '',
    previousBlockhash: '',
    blockHeight: null,
    blockTime: Number.isSafeInteger(blockTime) ? (blockTime as number) : null,
    // One transaction has too few keys to arrange collisions that matter.
    ...decodeEntries(slot as number, [result], new Uint8Array(32).fill(1)),
  };
}
