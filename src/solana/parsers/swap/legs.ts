import { WRAPPED_SOL_MINT } from '../../address/known-programs.ts';
import type { TokenMove } from '../../movements/movement.ts';
import type { TransactionView } from '../view.ts';

/** One side of a swap from the user's point of view. Keys are base58. */
export interface SwapLeg {
  readonly mint: string;
  /** Raw units. */
  readonly amount: bigint;
  readonly decimals: number;
  /** The user's token account; empty when no movement shows it. */
  readonly tokenAccount: string;
  /** It is lamports: the user's account of wrapped SOL ends with the transaction. */
  readonly isNative: boolean;
}

/** The user's transfers among the given ones: those that leave (`-1`) or reach (`1`) accounts of the user. */
export function userMoves(view: TransactionView, moves: readonly TokenMove[], user: string, sign: 1 | -1): TokenMove[] {
  return moves.filter((move) => {
    const [own, other] =
      sign < 0 ? [move.sourceOwner, move.destinationOwner] : [move.destinationOwner, move.sourceOwner];
    return view.key(own) === user && view.key(other) !== user;
  });
}

/** Makes the leg of a mint: the account is that of the first transfer out, or of the last one in. */
export function legOf(
  view: TransactionView,
  moves: readonly TokenMove[],
  user: string,
  sign: 1 | -1,
  mint: string,
  amount: bigint,
): SwapLeg {
  const own = userMoves(view, moves, user, sign).filter((move) => view.key(move.mint) === mint);
  const move = sign < 0 ? own[0] : own.at(-1);
  const account = move === undefined ? -1 : sign < 0 ? move.source : move.destination;
  const decimals = moves.find((one) => view.key(one.mint) === mint)?.decimals ?? 0;
  const tokenAccount = view.account(account);
  return { mint, amount, decimals, tokenAccount, isNative: mint === WRAPPED_SOL_MINT && isUnwrapped(view, user) };
}

function isUnwrapped({ natives, key }: TransactionView, user: string): boolean {
  return natives.some(({ kind, fromToken }) => kind === 'closeWrapped' && key(fromToken?.owner ?? -1) === user);
}
