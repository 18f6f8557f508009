import type { TokenMove } from '../../movements/movement.ts';
import type { TransactionView } from '../view.ts';
import { legOf, type SwapLeg, userMoves } from './legs.ts';

export interface Legs {
  readonly input: SwapLeg | null;
  readonly output: SwapLeg | null;
}

/** Whoever owns what the first transfer takes, if they signed: somebody else may pay the fee. */
export function userOf(view: TransactionView, moves: readonly TokenMove[]): string {
  const [first] = moves;
  if (first === undefined || !view.isSigner(first.authority)) return view.feePayer;
  return view.key(first.sourceOwner);
}

/** What the user gave of the first token that left, and got of the last one that came. */
export function movedLegs(view: TransactionView, moves: readonly TokenMove[], user: string): Legs {
  const leg = (sign: 1 | -1): SwapLeg | null => {
    const own = userMoves(view, moves, user, sign);
    const end = sign < 0 ? own[0] : own.at(-1);
    if (end === undefined) return null;
    const sum = own.filter(({ mint }) => mint === end.mint).reduce((total, { amount }) => total + amount, 0n);
    return legOf(view, moves, user, sign, view.key(end.mint), sum);
  };
  return { input: leg(-1), output: leg(1) };
}
