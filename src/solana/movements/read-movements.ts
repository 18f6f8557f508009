import type { KeyTable, NormalTransaction } from '../../ports/block.ts';
import { type TokenChange, tokenChanges } from './balance-changes.ts';
import { inferFees } from './infer-fees.ts';
import { createKeysBeyond, type MovementKeys } from './keys-beyond.ts';
import type { Movement } from './movement.ts';
import { findMovementPrograms } from './programs.ts';
import { readMoves } from './read-moves.ts';
import { type WalkStep, walkInstructions } from './walk.ts';

/** What a transaction did to balances. Key ids of `moves` may lie beyond the block's table: resolve them with `keys`. */
export interface Movements {
  readonly keys: MovementKeys;
  /** All instructions in order of execution. */
  readonly steps: readonly WalkStep[];
  /** Asked for by the instructions, in order of execution; what a failed transaction asked for did not happen. */
  readonly asked: readonly Movement[];
  /** What moved: `asked`, and nothing when the transaction failed. */
  readonly moves: readonly Movement[];
  readonly tokenChanges: readonly TokenChange[];
}

/** Pure, never throws for damaged instruction data: what cannot be read moves nothing. Native changes: `nativeChange`. */
export function readMovements(tx: NormalTransaction, table: KeyTable): Movements {
  const keys = createKeysBeyond(table);
  const steps = walkInstructions(tx);
  const moves = readMoves(tx, steps, keys, findMovementPrograms(table));
  const hasFailed = tx.error !== null;
  const asked = hasFailed ? moves : inferFees(tx, moves);
  return { keys, steps, asked, moves: hasFailed ? [] : asked, tokenChanges: tokenChanges(tx) };
}
