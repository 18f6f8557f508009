import type { NormalTransaction } from '../../ports/block.ts';
import type { Movement, TokenMove } from './movement.ts';

/** Fills in fees that no instruction tells, from destinations that had one movement and whose balance is known. */
export function inferFees(tx: NormalTransaction, moves: readonly Movement[]): readonly Movement[] {
  const isOpen = (move: Movement): move is TokenMove => move.asset === 'token' && move.fee === null;
  if (!moves.some(isOpen)) return moves;
  const seen = new Map<number, number>();
  for (const move of moves) {
    if (move.asset !== 'token') continue;
    for (const account of [move.source, move.destination]) seen.set(account, (seen.get(account) ?? 0) + 1);
  }
  return moves.map((move) => {
    if (!isOpen(move) || seen.get(move.destination) !== 1) return move;
    const after = tx.postTokenBalances.find(({ accountIndex }) => accountIndex === move.destination);
    if (after === undefined) return move;
    const before = tx.preTokenBalances.find(({ accountIndex }) => accountIndex === move.destination);
    const fee = move.amount - (BigInt(after.amount) - BigInt(before?.amount ?? '0'));
    return fee < 0n || fee > move.amount ? move : { ...move, fee };
  });
}
