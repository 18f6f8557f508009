import type { InnerGroup, NormalInnerInstruction } from '../../ports/block.ts';
import type { RpcInnerInstructions, RpcInstruction } from '../rpc-json.ts';
import { badBlock } from './faults.ts';
import { instructionData } from './instruction-data.ts';

/** Which transaction the groups belong to. */
interface Owner {
  readonly slot: number;
  readonly index: number;
  readonly keys: Uint32Array;
}

/** Decodes `meta.innerInstructions`. Throws CHAIN_BAD_BLOCK when it is malformed. */
export function innerGroupsOf(
  groups: readonly RpcInnerInstructions[] | null | undefined,
  owner: Owner,
): readonly InnerGroup[] {
  return (groups ?? []).map((group) => {
    if (!isIndex(group?.index, 256) || !Array.isArray(group.instructions)) throw fault(owner);
    return { index: group.index, instructions: group.instructions.map((one) => innerInstruction(one, owner)) };
  });
}

function innerInstruction(given: RpcInstruction, owner: Owner): NormalInnerInstruction {
  const keyCount = owner.keys.length;
  const { programIdIndex, accounts, data, stackHeight } = given ?? {};
  if (!isIndex(programIdIndex, keyCount) || !Array.isArray(accounts)) throw fault(owner);
  if (!accounts.every((account) => isIndex(account, keyCount))) throw fault(owner);
  const bytes = instructionData(data);
  if (bytes === null) throw fault(owner);
  return {
    programIndex: programIdIndex,
    accounts: Uint8Array.from(accounts),
    data: bytes,
    stackHeight: stackHeight ?? null,
  };
}

function isIndex(value: unknown, bound: number): value is number {
  return Number.isInteger(value) && (value as number) >= 0 && (value as number) < bound;
}

function fault(owner: Owner): Error {
  return badBlock(owner.slot, 'meta.innerInstructions is malformed', owner.index);
}
