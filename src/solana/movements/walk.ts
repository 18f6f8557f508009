import type { NormalInstruction, NormalTransaction } from '../../ports/block.ts';
import type { MovePlace } from './movement.ts';

export interface WalkStep extends MovePlace {
  /** Key of the program. */
  readonly program: number;
  /** Positions in `NormalTransaction.keys`. */
  readonly accounts: Uint8Array;
  /** A view on the block's bytes. */
  readonly data: Uint8Array;
}

/** All instructions in order of execution: the first of the message, those that it called, the second, … */
export function walkInstructions(tx: NormalTransaction): WalkStep[] {
  const steps: WalkStep[] = [];
  const inner = tx.innerInstructions;
  tx.instructions.forEach((instruction, outer) => {
    steps.push(stepOf(tx, instruction, outer, -1));
    for (const group of inner) {
      if (group.index !== outer) continue;
      group.instructions.forEach((called, at) => {
        steps.push(stepOf(tx, called, outer, at));
      });
    }
  });
  return steps;
}

function stepOf(
  tx: NormalTransaction,
  { programIndex, accounts, data }: NormalInstruction,
  outer: number,
  inner: number,
): WalkStep {
  return { outer, inner, program: tx.keys[programIndex] ?? -1, accounts, data };
}
