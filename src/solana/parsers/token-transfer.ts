import type { TokenMove } from '../movements/movement.ts';
import type { TransactionView } from './view.ts';
import { plainAmount, type Words } from './words.ts';

/** An entry of `tokenTransfers`. Unknown sides are empty texts. */
export function tokenTransfer(view: TransactionView, words: Words, move: TokenMove) {
  const { source, destination, amount, decimals } = move;
  const mint = view.key(move.mint);
  return {
    fromTokenAccount: view.account(source),
    fromUserAccount: source < 0 ? '' : view.key(move.sourceOwner),
    mint,
    toTokenAccount: view.account(destination),
    toUserAccount: view.key(move.destinationOwner),
    // By way of the text: dividing would not give the number that is nearest to the amount.
    tokenAmount: Number(plainAmount(amount, decimals ?? 0)),
    tokenStandard: words.standard(mint, decimals, amount),
  };
}
