import { WRAPPED_SOL_MINT } from '../../address/known-programs.ts';
import type { TokenMove } from '../../movements/movement.ts';
import { JUPITER_V6 } from '../program-ids.ts';
import { legOf } from '../swap/legs.ts';
import { marketOf } from '../swap/markets.ts';
import { type Legs, movedLegs, userOf } from '../swap/moved-legs.ts';
import type { InnerSwap, SwapFacts, SwapFee } from '../swap/swap-event.ts';
import type { TransactionView, ViewStep } from '../view.ts';
import { isMarketCall } from './market-call.ts';
import { type RouteSwap, routeFee, routeSwaps } from './route-events.ts';

/** What the routes of a transaction did together. */
export function routeFacts(view: TransactionView, routes: readonly ViewStep[]): SwapFacts {
  const groups = new Set(routes.map(({ outer }) => outer));
  const inside = view.steps.filter((step) => step.inner >= 0 && groups.has(step.outer));
  const moves = view.tokens.filter((move) => move.inner >= 0 && groups.has(move.outer));
  const told = inside.filter(({ programId }) => programId === JUPITER_V6);
  const swaps = told.flatMap(routeSwaps);
  const user = userOf(view, moves);
  return {
    user,
    ...legsOf(view, moves, user, swaps),
    fees: told.flatMap((step) => feeOf(view, moves, step)),
    inner: innerSwaps(view, inside, moves, swaps),
  };
}

function legsOf(view: TransactionView, moves: readonly TokenMove[], user: string, swaps: readonly RouteSwap[]): Legs {
  const net = netOf(swaps);
  const input = [...net].find(([, amount]) => amount < 0n);
  const output = [...net].find(([, amount]) => amount > 0n);
  // A route that ends where it began has no net input: then what the user gave and got says it.
  if (input === undefined || output === undefined) return movedLegs(view, moves, user);
  return {
    input: legOf(view, moves, user, -1, input[0], -input[1]),
    output: legOf(view, moves, user, 1, output[0], output[1]),
  };
}

/** By mint; what was consumed is negative. Mints in between cancel out, parallel ways add up. */
function netOf(swaps: readonly RouteSwap[]): Map<string, bigint> {
  const net = new Map<string, bigint>();
  const add = (mint: string, amount: bigint): unknown => net.set(mint, (net.get(mint) ?? 0n) + amount);
  for (const { inputMint, inputAmount, outputMint, outputAmount } of swaps) {
    add(inputMint, -inputAmount);
    add(outputMint, outputAmount);
  }
  const first = swaps[0]?.inputMint;
  const last = swaps.at(-1)?.outputMint;
  // Crumbs that stay in between are no input and no output.
  const ends = [...net].filter(([, amount]) => amount !== 0n).sort(([left], [right]) => rank(left) - rank(right));
  function rank(mint: string): number {
    return mint === first || mint === last ? 0 : 1;
  }
  return new Map(ends);
}

function feeOf(view: TransactionView, moves: readonly TokenMove[], step: ViewStep): SwapFee[] {
  const fee = routeFee(step);
  if (fee === null) return [];
  const paid = moves.find((move) => view.account(move.destination) === fee.account);
  const decimals = paid?.decimals ?? moves.find((move) => view.key(move.mint) === fee.mint)?.decimals ?? 0;
  const user = paid === undefined ? '' : view.key(paid.destinationOwner);
  return [{ ...fee, decimals, user, isNative: fee.mint === WRAPPED_SOL_MINT }];
}

function innerSwaps(
  view: TransactionView,
  inside: readonly ViewStep[],
  moves: readonly TokenMove[],
  swaps: readonly RouteSwap[],
): InnerSwap[] {
  const calls = inside.filter((step) => isMarketCall(inside, step));
  return swaps.map((swap, index) => {
    // Newer routes do not say where they traded: the markets were called in the same order.
    const call = swap.amm === '' ? calls[index] : calls.filter((one) => isBefore(one, swap.step)).at(-1);
    const next = swap.amm === '' ? calls[index + 1] : swap.step;
    const during = call === undefined ? [] : moves.filter((move) => isBefore(call, move) && isBefore(move, next));
    const pick = (mint: string, amount: bigint, fallback: 0 | -1): TokenMove[] => {
      const own = during.filter((move) => view.key(move.mint) === mint && move.kind !== 'burn');
      const move = own.find((one) => one.amount === amount) ?? own.at(fallback);
      return move === undefined ? [] : [move];
    };
    return {
      market: marketOf(swap.amm === '' ? (call?.programId ?? '') : swap.amm),
      instructionName: 'SwapEvent',
      inputs: pick(swap.inputMint, swap.inputAmount, 0),
      outputs: pick(swap.outputMint, swap.outputAmount, -1),
      fees: [],
    };
  });
}

type Place = Pick<ViewStep, 'outer' | 'inner'>;

function isBefore(left: Place, right: Place | undefined): boolean {
  if (right === undefined) return true;
  return left.outer === right.outer ? left.inner < right.inner : left.outer < right.outer;
}
