import { encode32 } from '../../lib/base58.ts';
import {
  ASSOCIATED_TOKEN_PROGRAM,
  SYSTEM_PROGRAM,
  TOKEN_2022_PROGRAM,
  TOKEN_PROGRAM,
  WRAPPED_SOL_MINT,
} from '../addresses.ts';
import { u64At } from '../movements/instructions.ts';
import type { TokenMove } from '../movements/movement.ts';
import { namedParser } from './named.ts';
import { discriminatorOf, type Parsed, type TransactionParser, type TransactionView, type ViewStep } from './parser.ts';
import { PROGRAM_ADDRESSES as AT, JUPITER_V6, MEMO, MEMO_V1, PROGRAM_ADDRESSES } from './programs.ts';
import {
  describeSwap,
  type InnerSwap,
  type Legs,
  legOf,
  marketOf,
  movedLegs,
  type SwapFacts,
  type SwapFee,
  swapEvents,
  userMoves,
  userOf,
} from './swap.ts';
import { describeMint } from './transfers.ts';

const OLD = [AT.JUPITER_V1, AT.JUPITER_V2, AT.JUPITER_V3, AT.JUPITER_V4];

/** Swap instructions of version 6; they count as routes even without events. */
const ROUTES = new Set([
  // route, shared_accounts_route, exact_out_route, shared_accounts_exact_out_route
  ...['e517cb977ae3ad2a', 'c1209b3341d69c81', 'd033ef977b2bed5c', 'b0d169a89a7d453e'],
  // route_with_token_ledger, shared_accounts_route_with_token_ledger
  ...['96564774a75d0e68', 'e6798f50779f6aaa'],
  // route_v2, shared_accounts_route_v2, exact_out_route_v2, shared_accounts_exact_out_route_v2
  ...['bb64facc31c4af14', 'd19853937cfed8e9', '9d8ab85215f4f324', '3560e5cad8bbfa18'],
]);

export const jupiter: TransactionParser = {
  name: 'jupiter',
  programs: [JUPITER_V6, ...OLD],
  parse(view) {
    const routes = view.outer.filter((step) => step.programId === JUPITER_V6 && isRoute(view, step));
    const swaps = routes.length > 0 ? [] : view.outer.filter((step) => isOldSwap(view, step));
    if (routes.length === 0 && swaps.length === 0) return null;
    if (!view.options.preferSwapOverMint && isMintToHosted(view, routes))
      return { type: 'TOKEN_MINT', source: 'UNKNOWN', describe: () => describeMint(view) };
    return swapped(view, routes, swaps);
  },
};

/**
 * The one kind of swap that recorded hosted answers call a mint: a route over a single market that mints shares of its fee on
 * the way. All other swaps are swaps, whatever their markets mint.
 */
function isMintToHosted(view: TransactionView, routes: readonly ViewStep[]): boolean {
  const [route] = routes;
  if (route === undefined || routes.length > 1) return false;
  const swaps = view.steps.filter(({ outer, programId }) => outer === route.outer && programId === JUPITER_V6);
  if (swaps.flatMap(routeSwaps).length !== 1) return false;
  return view.tokens.some(({ kind, outer, inner }) => kind === 'mint' && outer === route.outer && inner >= 0);
}

function swapped(view: TransactionView, routes: readonly ViewStep[], swaps: readonly ViewStep[]): Parsed {
  const facts = () => (routes.length > 0 ? routeFacts(view, routes) : oldSwapFacts(view, swaps));
  return {
    ...{ type: 'SWAP', source: 'JUPITER' },
    describe: (words) => describeSwap(words, facts()),
    events: (words) => swapEvents(view, words, facts()),
  };
}

function isRoute(view: TransactionView, { data, outer }: ViewStep): boolean {
  if (ROUTES.has(discriminatorOf(data))) return true;
  return view.steps.some(
    (step) => step.outer === outer && step.programId === JUPITER_V6 && routeSwaps(step).length > 0,
  );
}

/** Older versions have one instruction per market; those that swap move tokens both ways. */
function isOldSwap(view: TransactionView, { programId, outer }: ViewStep): boolean {
  if (!OLD.includes(programId as (typeof OLD)[number])) return false;
  return view.tokens.filter((move) => move.outer === outer && move.inner >= 0).length > 1;
}

/** Combined effect of the routes of a transaction. */
function routeFacts(view: TransactionView, routes: readonly ViewStep[]): SwapFacts {
  const groups = new Set(routes.map(({ outer }) => outer));
  const inside = view.steps.filter((step) => step.inner >= 0 && groups.has(step.outer));
  const moves = view.tokens.filter((move) => move.inner >= 0 && groups.has(move.outer));
  const events = inside.filter(({ programId }) => programId === JUPITER_V6);
  const swaps = events.flatMap(routeSwaps);
  const user = userOf(view, moves);
  return {
    user,
    ...legsOf(view, moves, user, swaps),
    fees: feesOf(view, events, moves, user, swaps),
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
    // A circular route: the difference between output and input is the result.
    return legs([first, sumOf(swaps, first, 'input')], [first, sumOf(swaps, first, 'output')]);
  }
  const net = netOf(swaps);
  // Remainders of intermediate tokens are neither input nor output.
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

/** By mint; consumed amounts are negative. Intermediate mints cancel out, parallel paths add up. */
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
  events: readonly ViewStep[],
  moves: readonly TokenMove[],
  user: string,
  swaps: readonly RouteSwap[],
): readonly SwapFee[] {
  const fees = events.flatMap((step) => feeOf(view, moves, step));
  const end = swaps.at(-1)?.step;
  if (fees.length > 0 || end === undefined) return fees;
  // Newer routes do not emit their fee: it is the transfer to another account after all trades.
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
    // Newer routes do not emit their markets: these were called in the same order.
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

/** A swap of a route on one market. Keys are base58, amounts raw units. */
interface RouteSwap {
  readonly amm: string;
  readonly inputMint: string;
  readonly inputAmount: bigint;
  readonly outputMint: string;
  readonly outputAmount: bigint;
  /** Step that emitted it. */
  readonly step: ViewStep;
}

interface RouteFee {
  /** Token account that received it. */
  readonly account: string;
  readonly mint: string;
  readonly amount: bigint;
}

/** Prefix of events that a program emits by calling itself. */
const SELF_CALL = 'e445a52e51cb9a1d';
const SWAP_EVENT = '40c6cde8260871e2';
const SWAPS_EVENT = '982f4eebc0606e6a';
const FEE_EVENT = '494f4e7fb8d50ddc';
const SWAP_BYTES = 128;
const FEE_BYTES = 88;

const key = (data: Uint8Array, at: number): string => encode32(data, at);

function eventOf({ data }: ViewStep): string {
  return discriminatorOf(data) === SELF_CALL ? discriminatorOf(data, 8) : '';
}

/** The swaps emitted by a call of the aggregator; empty without readable events. */
function routeSwaps(step: ViewStep): readonly RouteSwap[] {
  const { data } = step;
  const event = eventOf(step);
  if (event === SWAP_EVENT && data.length >= SWAP_BYTES) {
    const swap = {
      ...{ amm: key(data, 16), inputMint: key(data, 48), outputMint: key(data, 88), step },
      ...{ inputAmount: u64At(data, 80)!, outputAmount: u64At(data, 120)! },
    };
    return [swap];
  }
  return event === SWAPS_EVENT ? listedSwaps(step) : [];
}

/** Newer routes emit all their swaps at once, without markets. */
const LISTED_AT = 20;
const LISTED_BYTES = 32 + 8 + 32 + 8;

function listedSwaps(step: ViewStep): readonly RouteSwap[] {
  const { data } = step;
  const count = (data.length - LISTED_AT) / LISTED_BYTES;
  if (!Number.isInteger(count) || count < 1) return [];
  return Array.from({ length: count }, (_, index) => {
    const at = LISTED_AT + index * LISTED_BYTES;
    return {
      ...{ amm: '', inputMint: key(data, at), outputMint: key(data, at + 40), step },
      ...{ inputAmount: u64At(data, at + 32)!, outputAmount: u64At(data, at + 72)! },
    };
  });
}

function routeFee(step: ViewStep): RouteFee | null {
  const { data } = step;
  if (eventOf(step) !== FEE_EVENT || data.length < FEE_BYTES) return null;
  return { account: key(data, 16), mint: key(data, 48), amount: u64At(data, 80)! };
}

const HELPERS = [
  TOKEN_PROGRAM,
  TOKEN_2022_PROGRAM,
  SYSTEM_PROGRAM,
  ASSOCIATED_TOKEN_PROGRAM,
  JUPITER_V6,
  MEMO,
  MEMO_V1,
];

/** Whether a call goes to a market: token transfers follow it, and it is not an event. */
function isMarketCall(inside: readonly ViewStep[], step: ViewStep): boolean {
  if (HELPERS.includes(step.programId) || discriminatorOf(step.data) === SELF_CALL) return false;
  const next = inside[inside.indexOf(step) + 1];
  return next !== undefined && next.outer === step.outer;
}

/** Names of the instructions, by discriminator. */
const NAMES: Readonly<Record<string, string>> = {
  '7be5b83f0c005c91': 'whirlpoolSwap',
  bbc076d43e6d1cd5: 'tokenSwap',
};

/** A swap by an older version: an instruction for one market, in which the user pays a fee to another account. */
function oldSwapFacts(view: TransactionView, swaps: readonly ViewStep[]): SwapFacts {
  const groups = swaps.map(({ outer }) => outer);
  const moves = view.tokens.filter((move) => move.inner >= 0 && groups.includes(move.outer));
  const user = userOf(view, moves);
  const legs = movedLegs(view, moves, user);
  const got = legs.output?.mint;
  // Output tokens that leave the user again are the fee.
  const fees = userMoves(view, moves, user, -1).filter((move) => view.key(move.mint) === got);
  return {
    user,
    ...legs,
    // The fee is listed with the account that paid it, wrapped or not.
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

const source = 'JUPITER';
const LIMIT_TYPES = {
  initialize_order: 'CREATE_ORDER',
  fill_order: 'FILL_ORDER',
  pre_flash_fill_order: 'FILL_ORDER',
  flash_fill_order: 'FILL_ORDER',
  cancel_order: 'CANCEL_ORDER',
  cancel_expired_order: 'CANCEL_ORDER',
};

export const jupiterLimit = namedParser({
  ...{ name: 'jupiter-limit', program: PROGRAM_ADDRESSES.JUPITER_LIMIT_ORDER, source, types: LIMIT_TYPES },
});

export const jupiterLimitV2 = namedParser({
  ...{ name: 'jupiter-limit-v2', program: 'j1o2qRpjcyUwEvwtcfhEQefh773ZgjxcVRry7LDqg5X', source, types: LIMIT_TYPES },
});

/** Orders that are filled in parts. */
export const jupiterRecurring = namedParser({
  name: 'jupiter-recurring',
  program: 'DCA265Vj8a9CEuX1eb1LWRnDT7uK6q1xMipnNyatn23M',
  source,
  types: {
    open_dca: 'CREATE_ORDER',
    open_dca_v2: 'CREATE_ORDER',
    initiate_flash_fill: 'FILL_ORDER',
    fulfill_flash_fill: 'FILL_ORDER',
    initiate_dlmm_fill: 'FILL_ORDER',
    close_dca: 'CLOSE_ORDER',
    end_and_close: 'CLOSE_ORDER',
    deposit: 'DEPOSIT',
    withdraw: 'WITHDRAW',
  },
});
