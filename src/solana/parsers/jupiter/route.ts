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
    fees: feesOf(view, told, moves, user, swaps),
    inner: innerSwaps(view, inside, moves, swaps),
  };
}

function legsOf(view: TransactionView, moves: readonly TokenMove[], user: string, swaps: readonly RouteSwap[]): Legs {
  const [first, last] = [swaps[0]?.inputMint, swaps.at(-1)?.outputMint];
  const legs = (input: readonly [string, bigint], output: readonly [string, bigint]): Legs => ({
    input: legOf(view, moves, user, -1, ...input),
    output: legOf(view, moves, user, 1, ...output),
  });
  if (first !== undefined && first === last) {
    // It ends where it began: what counts is how much more came out than went in.
    return legs([first, sumOf(swaps, first, 'input')], [first, sumOf(swaps, first, 'output')]);
  }
  const net = netOf(swaps);
  // Crumbs that stay in between are no input and no output.
  const pick = (end: string | undefined, sign: 1n | -1n): readonly [string, bigint] | undefined => {
    const own = [...net].filter(([, amount]) => amount * sign > 0n);
    return own.find(([mint]) => mint === end) ?? own[0];
  };
  const [input, output] = [pick(first, -1n), pick(last, 1n)];
  if (input === undefined || output === undefined) return movedLegs(view, moves, user);
  return legs([input[0], -input[1]], output);
}

function sumOf(swaps: readonly RouteSwap[], mint: string, side: 'input' | 'output'): bigint {
  return swaps.filter((swap) => swap[`${side}Mint`] === mint).reduce((sum, swap) => sum + swap[`${side}Amount`], 0n);
}

/** By mint; what was consumed is negative. Mints in between cancel out, parallel ways add up. */
function netOf(swaps: readonly RouteSwap[]): Map<string, bigint> {
  const net = new Map<string, bigint>();
  const add = (mint: string, amount: bigint): unknown => net.set(mint, (net.get(mint) ?? 0n) + amount);
  for (const { inputMint, inputAmount, outputMint, outputAmount } of swaps) {
    add(inputMint, -inputAmount);
    add(outputMint, outputAmount);
  }
  return net;
}

function feesOf(
  view: TransactionView,
  told: readonly ViewStep[],
  moves: readonly TokenMove[],
  user: string,
  swaps: readonly RouteSwap[],
): readonly SwapFee[] {
  const fees = told.flatMap((step) => feeOf(view, moves, step));
  const end = swaps.at(-1)?.step;
  if (fees.length > 0 || end === undefined) return fees;
  // Newer routes do not tell their fee: it is what goes to somebody else when all is traded.
  return moves
    .filter((move) => isBefore(end, move) && move.destinationOwner >= 0 && view.key(move.destinationOwner) !== user)
    .map((move) => ({
      ...{ account: view.account(move.destination), mint: view.key(move.mint), amount: move.amount },
      ...{ user: view.key(move.destinationOwner), decimals: move.decimals ?? 0 },
      isNative: view.key(move.mint) === WRAPPED_SOL_MINT,
    }));
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
