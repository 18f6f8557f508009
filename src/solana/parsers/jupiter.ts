import { encode32 } from '../../lib/base58.ts';
import { u64At } from '../movements/instructions.ts';
import type { NativeMove, TokenMove } from '../movements/movement.ts';
import {
  ASSOCIATED_TOKEN_PROGRAM,
  PROGRAM_ADDRESSES as AT,
  JUPITER_DCA,
  JUPITER_LIMIT_V2,
  JUPITER_V6,
  MEMO_PROGRAMS,
  SYSTEM_PROGRAM,
  TOKEN_2022_PROGRAM,
  TOKEN_PROGRAM,
  WRAPPED_SOL_MINT,
} from '../programs.ts';
import { namedParser } from './named.ts';
import { discriminatorOf, type Parsed, type TransactionParser, type TransactionView, type ViewStep } from './parser.ts';
import {
  describeSwap,
  type InnerSwap,
  type Legs,
  legOf,
  marketOf,
  movedLegs,
  type SwapFacts,
  type SwapFee,
  type SwapLeg,
  swapEvents,
  userMoves,
  userOf,
} from './swap.ts';
import { describeMint } from './transfers.ts';

const OLD = [AT.JUPITER_V1, AT.JUPITER_V2, AT.JUPITER_V3, AT.JUPITER_V4];

/** Swap instructions of version 6; they count as routes even without events. */
const ROUTES = new Set([
  // route, shared_accounts_route, exact_out_route, shared_accounts_exact_out_route
  'e517cb977ae3ad2a',
  'c1209b3341d69c81',
  'd033ef977b2bed5c',
  'b0d169a89a7d453e',
  // route_with_token_ledger, shared_accounts_route_with_token_ledger
  '96564774a75d0e68',
  'e6798f50779f6aaa',
  // route_v2, shared_accounts_route_v2, exact_out_route_v2, shared_accounts_exact_out_route_v2
  'bb64facc31c4af14',
  'd19853937cfed8e9',
  '9d8ab85215f4f324',
  '3560e5cad8bbfa18',
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
    type: 'SWAP',
    source: 'JUPITER',
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

const isOld = ({ programId }: ViewStep): boolean => OLD.includes(programId as (typeof OLD)[number]);

/** Older versions have one instruction per market, or a route over several; those that swap move tokens both ways, or lamports for tokens. */
function isOldSwap(view: TransactionView, step: ViewStep): boolean {
  if (!isOld(step)) return false;
  const moves = view.tokens.filter((move) => move.outer === step.outer && move.inner >= 0);
  return moves.length > 1 || (moves.length > 0 && discriminatorOf(step.data) in NAMES);
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
      account: view.account(move.destination),
      mint: view.key(move.mint),
      amount: move.amount,
      user: view.key(move.destinationOwner),
      decimals: move.decimals ?? 0,
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

type StepPlace = Pick<ViewStep, 'outer' | 'inner'>;

function isBefore(left: StepPlace, right: StepPlace | undefined): boolean {
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
      amm: key(data, 16),
      inputMint: key(data, 48),
      outputMint: key(data, 88),
      step,
      inputAmount: u64At(data, 80)!,
      outputAmount: u64At(data, 120)!,
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
      amm: '',
      inputMint: key(data, at),
      outputMint: key(data, at + 40),
      step,
      inputAmount: u64At(data, at + 32)!,
      outputAmount: u64At(data, at + 72)!,
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
  ...MEMO_PROGRAMS,
];

/** Whether a call goes to a market: token transfers follow it, and it is not an event. */
function isMarketCall(inside: readonly ViewStep[], step: ViewStep): boolean {
  if (HELPERS.includes(step.programId) || discriminatorOf(step.data) === SELF_CALL) return false;
  const next = inside[inside.indexOf(step) + 1];
  return next !== undefined && next.outer === step.outer;
}

/** Swap instructions of older versions by discriminator, with their names in camel case. */
const NAMES: Readonly<Record<string, string>> = {
  '7be5b83f0c005c91': 'whirlpoolSwap',
  bbc076d43e6d1cd5: 'tokenSwap',
  b1ad2af0b8047c51: 'raydiumSwap',
  '45e3625dedcadf8c': 'raydiumSwapV2',
  '1ff83ce2d7a837c7': 'mercurialExchange',
  '919eb8d4034a9c76': 'saberExchange',
  '403e62e2344a25b2': 'saberSwap',
  '58b746f9d67652d2': 'serumSwap',
  fbe877a6e1b9a9a1: 'aldrinSwap',
  bea6598b2198100a: 'aldrinV2Swap',
  eba0af7a3db102f7: 'cremaTokenSwap',
  '26f1156b783bb8f9': 'cykuraSwap',
  '1760a5215ad66099': 'lifinitySwap',
  '0031f60124990b5d': 'lifinityTokenSwap',
  '376411f3f2b52ba5': 'stepTokenSwap',
  a7263b25843c5f44: 'cropperTokenSwap',
  '5e1f9ffc90430464': 'senchaExchange',
  b2adbd5118f4fc25: 'sarosTokenSwap',
  bbc128792f4990b1: 'invariantSwap',
  '3eecf81cdee8b649': 'marinadeDeposit',
  '29780f0071db2a01': 'marinadeUnstake',
  e517cb977ae3ad2a: 'route',
  '96564774a75d0e68': 'routeWithTokenLedger',
  c1209b3341d69c81: 'sharedAccountsRoute',
  e6798f50779f6aaa: 'sharedAccountsRouteWithTokenLedger',
  d033ef977b2bed5c: 'exactOutRoute',
  b0d169a89a7d453e: 'sharedAccountsExactOutRoute',
};

/** Swaps by an older version, in which the user pays a fee to another account. */
function oldSwapFacts(view: TransactionView, swaps: readonly ViewStep[]): SwapFacts {
  const groups = swaps.map(({ outer }) => outer);
  const isInside = ({ outer, inner }: StepPlace) => inner >= 0 && groups.includes(outer);
  const moves = view.tokens.filter(isInside);
  const user = userOf(view, moves);
  const { input, output } = movedLegs(view, moves, user);
  // Output tokens that leave the user again are the fee.
  const fees = userMoves(view, moves, user, -1).filter((move) => view.key(move.mint) === output?.mint);
  return {
    user,
    input: input ?? lamportsLeg(view, view.natives.filter(isInside), user, -1),
    output: output ?? lamportsLeg(view, view.natives.filter(isInside), user, 1),
    // The fee is listed with the account that paid it, wrapped or not.
    fees: fees.map((move) => ({
      user,
      account: view.account(move.source),
      mint: view.key(move.mint),
      amount: move.amount,
      decimals: move.decimals ?? 0,
      isNative: false,
    })),
    inner: swaps.flatMap((step) => oldInnerSwaps(view, step, moves, user, fees)),
  };
}

/** What a stake pool takes or gives for its tokens; null for nothing. */
function lamportsLeg(view: TransactionView, moves: readonly NativeMove[], user: string, sign: 1 | -1): SwapLeg | null {
  const own = moves.filter(({ from, to, kind }) => {
    const [mine, other] = sign < 0 ? [from, to] : [to, from];
    return kind === 'transfer' && view.account(mine) === user && view.account(other) !== user;
  });
  const amount = own.reduce((sum, move) => sum + move.amount, 0n);
  return amount === 0n ? null : { mint: WRAPPED_SOL_MINT, amount, decimals: 9, tokenAccount: '', isNative: true };
}

/** An instruction for one market is one swap; a route is one for each market that it calls. */
function oldInnerSwaps(
  view: TransactionView,
  step: ViewStep,
  moves: readonly TokenMove[],
  user: string,
  fees: readonly TokenMove[],
): readonly InnerSwap[] {
  const own = moves.filter(({ outer }) => outer === step.outer);
  const inside = view.steps.filter(({ outer, inner }) => outer === step.outer && inner >= 0);
  const calls = inside.filter((one) => isMarketCall(inside, one) && !isOld(one));
  const during = (at: number) => own.filter((move) => isBefore(calls[at]!, move) && isBefore(move, calls[at + 1]));
  // A market may call another one, and moves tokens only then.
  const traded = calls.flatMap((call, at) => (during(at).length > 0 ? [{ call, moves: during(at) }] : []));
  const instructionName = NAMES[discriminatorOf(step.data)] ?? 'swap';
  const paid = own.filter((move) => fees.includes(move));
  if (traded.length < 2)
    return [
      {
        market: marketOf((calls[0] ?? inside[0])?.programId ?? ''),
        instructionName,
        fees: paid,
        inputs: userMoves(view, own, user, -1).filter((move) => !fees.includes(move)),
        outputs: userMoves(view, own, user, 1),
      },
    ];
  return traded.map(({ call, moves: all }, at): InnerSwap => {
    const [input, ...others] = all.filter(
      (move) => move.kind !== 'mint' && move.kind !== 'burn' && !fees.includes(move),
    );
    const output = others.find(({ mint }) => mint !== input?.mint);
    return {
      market: marketOf(call.programId),
      instructionName,
      fees: at === traded.length - 1 ? paid : [],
      inputs: input === undefined ? [] : [input],
      outputs: output === undefined ? [] : [output],
    };
  });
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
  name: 'jupiter-limit',
  program: AT.JUPITER_LIMIT_ORDER,
  source,
  types: LIMIT_TYPES,
});

export const jupiterLimitV2 = namedParser({
  name: 'jupiter-limit-v2',
  program: JUPITER_LIMIT_V2,
  source,
  types: LIMIT_TYPES,
});

/** Orders that are filled in parts. */
export const jupiterRecurring = namedParser({
  name: 'jupiter-recurring',
  program: JUPITER_DCA,
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
