import { decode32 } from '../../lib/base58.ts';
import type { BlockHeader } from '../../ports/block.ts';
import { badBlock } from './faults.ts';

/**
 * The header in a parsed `getBlock` result of any detail level. Throws CHAIN_BAD_BLOCK (facts {slot, reason}) when it lacks what
 * links blocks, or contradicts itself.
 */
export function decodeHeader(slot: number, result: unknown): BlockHeader {
  if (typeof result !== 'object' || result === null) throw badBlock(slot, 'the block is no object');
  const { parentSlot, blockhash, previousBlockhash, blockHeight, blockTime } = result as Partial<BlockHeader>;
  if (!isHash(blockhash)) throw badBlock(slot, 'blockhash is missing');
  if (!isHash(previousBlockhash)) throw badBlock(slot, 'previousBlockhash is missing');
  if (!Number.isSafeInteger(parentSlot) || parentSlot! < 0) throw badBlock(slot, 'parentSlot is missing');
  // The first block of a chain names itself as its parent.
  if (parentSlot! >= slot && slot !== 0) throw badBlock(slot, `parentSlot ${parentSlot} is not below the slot`);
  return {
    slot,
    parentSlot: parentSlot!,
    blockhash,
    previousBlockhash,
    blockHeight: Number.isSafeInteger(blockHeight) ? blockHeight! : null,
    blockTime: Number.isSafeInteger(blockTime) ? blockTime! : null,
  };
}

function isHash(value: unknown): value is string {
  return typeof value === 'string' && decode32(value) !== null;
}
