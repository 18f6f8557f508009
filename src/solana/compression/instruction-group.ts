import type { KeyTable, NormalInstruction, NormalTransaction } from '../../ports/block.ts';

/** An instruction with the ids of its program and accounts in the block's key table. */
export interface Step {
  readonly program: number;
  readonly accounts: readonly number[];
  readonly data: Uint8Array;
}

/** An outer instruction and the inner ones that it caused, in order of execution. */
export type InstructionGroup = readonly Step[];

export function instructionGroups(transaction: NormalTransaction): readonly InstructionGroup[] {
  const { keys } = transaction;
  const step = ({ programIndex, accounts, data }: NormalInstruction): Step => ({
    program: keys[programIndex] ?? -1,
    accounts: Array.from(accounts, (account) => keys[account] ?? -1),
    data,
  });
  const inner = new Map(transaction.innerInstructions.map(({ index, instructions }) => [index, instructions]));
  return transaction.instructions.map((outer, i) => [step(outer), ...(inner.get(i) ?? []).map(step)]);
}

/** The keys behind ids; accounts that the message does not have are left as empty keys, which match nothing. */
export function keysOf(ids: readonly number[], table: KeyTable): readonly Uint8Array[] {
  return ids.map((id) => (id < 0 ? new Uint8Array(0) : table.bytes(id)));
}
