import type { TransactionView } from './view.ts';
import { plainAmount, type Words } from './words.ts';

/** The first token transfer, however many there are. */
export function describeTransfer(view: TransactionView, words: Words): string {
  const [first] = view.tokens;
  if (first === undefined) return '';
  const { amount, decimals } = first;
  const token = words.token(view.key(first.mint), decimals, amount);
  const [from, to] = [view.key(first.sourceOwner), view.key(first.destinationOwner)];
  return `${from} transferred ${plainAmount(amount, decimals ?? 0)} ${token} to ${to}.`;
}
