import type { Parsed } from '../parser.ts';
import type { TransactionView, ViewStep } from '../view.ts';
import { userMoves } from './legs.ts';
import { marketOf } from './markets.ts';
import { movedLegs, userOf } from './moved-legs.ts';
import { describeSwap, type SwapFacts, swapEvents } from './swap-event.ts';

/** A swap that the user asked a market for, without an aggregator. Null unless tokens went out and in. */
export function directSwap(
  view: TransactionView,
  source: string,
  isSwap: (step: ViewStep) => boolean,
  options: { readonly events: boolean } = { events: true },
): Parsed | null {
  const calls = view.outer.filter(isSwap);
  if (calls.length === 0) return null;
  const groups = calls.map(({ outer }) => outer);
  const moves = view.tokens.filter((move) => move.inner >= 0 && groups.includes(move.outer));
  const user = userOf(view, moves);
  const legs = movedLegs(view, moves, user);
  if (legs.input === null || legs.output === null) return null;
  const facts: SwapFacts = {
    ...{ user, ...legs, fees: [] },
    inner: calls.map((step) => {
      const own = moves.filter(({ outer }) => outer === step.outer);
      return {
        ...{ market: marketOf(step.programId), instructionName: 'swap', fees: [] },
        inputs: userMoves(view, own, user, -1),
        outputs: userMoves(view, own, user, 1),
      };
    }),
  };
  return {
    ...{ type: 'SWAP', source },
    describe: (words) => describeSwap(words, facts),
    ...(options.events ? { events: (words) => swapEvents(view, words, facts) } : {}),
  };
}
