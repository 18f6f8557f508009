import type { InnerGroup, NormalInnerInstruction } from '../../ports/block.ts';
import type { RpcInnerInstructions, RpcInstruction } from '../rpc-json.ts';
import { badBlock } from './faults.ts';
import { instructionData } from './instruction-data.ts';

/**
 * Decodes `meta.innerInstructions`, whose indexes have been checked. Throws CHAIN_BAD_BLOCK when the data of one is not base58.
 */
export function innerGroupsOf(
  groups: readonly RpcInnerInstructions[] | null | undefined,
  slot: number,
  index: number,
): readonly InnerGroup[] {
  const one = ({ programIdIndex, accounts, data, stackHeight }: RpcInstruction): NormalInnerInstruction => {
    const bytes = instructionData(data);
    if (bytes === null) throw badBlock(slot, 'the data of an inner instruction is not base58', index);
    return {
      programIndex: programIdIndex,
      accounts: Uint8Array.from(accounts),
      data: bytes,
      stackHeight: stackHeight ?? null,
    };
  };
  return (groups ?? []).map((group) => ({ index: group.index, instructions: group.instructions.map(one) }));
}
