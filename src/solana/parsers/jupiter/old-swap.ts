import { discriminatorOf } from '../discriminator.ts';
import { userMoves } from '../swap/legs.ts';
import { marketOf } from '../swap/markets.ts';
import { movedLegs, userOf } from '../swap/moved-legs.ts';
import type { SwapFacts } from '../swap/swap-event.ts';
import type { TransactionView, ViewStep } from '../view.ts';

/** Names of the instructions, by discriminator. */
const NAMES: Readonly<Record<string, string>> = {
  '7be5b83f0c005c91': 'whirlpoolSwap',
  bbc076d43e6d1cd5: 'tokenSwap',
};

/** A swap by an older version: an instruction for one market, in which the user pays a fee to somebody else. */
export function oldSwapFacts(view: TransactionView, swaps: readonly ViewStep[]): SwapFacts {
  const groups = swaps.map(({ outer }) => outer);
  const moves = view.tokens.filter((move) => move.inner >= 0 && groups.includes(move.outer));
  const user = userOf(view, moves);
  const legs = movedLegs(view, moves, user);
  const got = legs.output?.mint;
  // What leaves the user again after it came in is the fee.
  const fees = userMoves(view, moves, user, -1).filter((move) => view.key(move.mint) === got);
  return {
    user,
    ...legs,
    // The fee stands with the account that paid it, wrapped or not.
    fees: fees.map((move) => ({
      ...{ user, account: view.account(move.source), mint: view.key(move.mint), amount: move.amount },
      ...{ decimals: move.decimals ?? 0, isNative: false },
    })),
    inner: swaps.map((step) => {
      const own = moves.filter(({ outer }) => outer === step.outer);
      const call = view.steps.find(({ outer, inner }) => outer === step.outer && inner === 0);
      return {
        market: marketOf(call?.programId ?? ''),
        instructionName: NAMES[discriminatorOf(step.data)] ?? 'swap',
        inputs: userMoves(view, own, user, -1).filter((move) => !fees.includes(move)),
        outputs: userMoves(view, own, user, 1),
        fees: own.filter((move) => fees.includes(move)),
      };
    }),
  };
}
