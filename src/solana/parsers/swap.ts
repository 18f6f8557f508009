import { lazy } from '../../lib/lazy.ts';
import { plainAmount } from '../accounts/amounts.ts';
import type { TokenMove } from '../movements/movement.ts';
import {
  PROGRAM_ADDRESSES as AT,
  DEVNET,
  INVARIANT,
  METEORA_DAMM_V2,
  METEORA_DLMM,
  METEORA_POOLS,
  OPENBOOK,
  OPENBOOK_V2,
  PHOENIX,
  PUMP_AMM,
  PUMP_FUN,
  RAYDIUM_CLMM,
  RAYDIUM_CPMM,
  SANCTUM_INFINITY,
  SANCTUM_ROUTER,
  WRAPPED_SOL_MINT,
} from '../programs.ts';
import { type Parsed, type TransactionView, tokenTransfer, type ViewStep, type Words } from './parser.ts';
import { PROGRAM_NAMES, SOURCES } from './programs.ts';

/** A swap that the user requested from a market without an aggregator. Null unless tokens went out and in: more than none of them. */
export function directSwap(
  view: TransactionView,
  source: string,
  isSwap: (step: ViewStep) => boolean,
  options: { readonly events: boolean } = { events: true },
): Parsed | null {
  const calls = view.outer.filter(isSwap);
  if (calls.length === 0) return null;
  const groups = calls.map(({ outer }) => outer);
  const moves = view.tokens.filter((move) => move.inner >= 0 && groups.includes(move.outer) && move.amount > 0n);
  const user = userOf(view, moves);
  const legs = movedLegs(view, moves, user);
  if (legs.input === null || legs.output === null) return null;
  const facts: SwapFacts = {
    user,
    ...legs,
    fees: [],
    inner: calls.map((step) => {
      const own = moves.filter(({ outer }) => outer === step.outer);
      return {
        market: marketOf(step.programId),
        instructionName: 'swap',
        fees: [],
        inputs: userMoves(view, own, user, -1),
        outputs: userMoves(view, own, user, 1),
      };
    }),
  };
  return {
    type: 'SWAP',
    source,
    describe: (words) => describeSwap(words, facts),
    ...(options.events ? { events: (words) => swapEvents(view, words, facts) } : {}),
  };
}

/** A swap on one market that is part of a larger one. */
export interface InnerSwap {
  readonly market: Market;
  /** In camel case. */
  readonly instructionName: string;
  readonly inputs: readonly TokenMove[];
  readonly outputs: readonly TokenMove[];
  readonly fees: readonly TokenMove[];
}

export interface SwapFee {
  /** base58: owner of the account, and the account itself. */
  readonly user: string;
  readonly account: string;
  readonly mint: string;
  readonly amount: bigint;
  readonly decimals: number;
  /** Reported as lamports. */
  readonly isNative: boolean;
}

export interface SwapFacts {
  /** base58 */
  readonly user: string;
  readonly input: SwapLeg | null;
  readonly output: SwapLeg | null;
  readonly fees: readonly SwapFee[];
  readonly inner: readonly InnerSwap[];
}

/** `events` of a swap. */
export function swapEvents(view: TransactionView, words: Words, swap: SwapFacts): Readonly<Record<string, unknown>> {
  const native = (leg: SwapLeg | null) =>
    leg?.isNative === true ? { account: swap.user, amount: leg.amount.toString() } : null;
  const tokens = (leg: SwapLeg | null) =>
    leg === null || leg.isNative ? [] : [entry(swap.user, leg.tokenAccount, leg.mint, leg.amount, leg.decimals)];
  return {
    swap: {
      innerSwaps: swap.inner.map((inner) => innerSwap(view, words, inner)),
      nativeFees: swap.fees
        .filter(({ isNative }) => isNative)
        .map(({ user, amount }) => ({ account: user, amount: amount.toString() })),
      nativeInput: native(swap.input),
      nativeOutput: native(swap.output),
      tokenFees: swap.fees
        .filter(({ isNative }) => !isNative)
        .map(({ user, account, mint, amount, decimals }) => entry(user, account, mint, amount, decimals)),
      tokenInputs: tokens(swap.input),
      tokenOutputs: tokens(swap.output),
    },
  };
}

function entry(user: string, tokenAccount: string, mint: string, amount: bigint, decimals: number) {
  return {
    mint,
    rawTokenAmount: { decimals, tokenAmount: amount.toString() },
    tokenAccount,
    userAccount: user,
  };
}

function innerSwap(view: TransactionView, words: Words, { market, instructionName, ...moves }: InnerSwap) {
  const rows = (list: readonly TokenMove[]) => list.map((move) => tokenTransfer(view, words, move));
  return {
    nativeFees: [],
    programInfo: {
      account: market.account,
      instructionName,
      programName: market.name,
      source: market.source,
    },
    tokenFees: rows(moves.fees),
    tokenInputs: rows(moves.inputs),
    tokenOutputs: rows(moves.outputs),
  };
}

export function describeSwap(words: Words, { user, input, output }: SwapFacts): string {
  if (input === null || output === null) return '';
  const text = ({ mint, amount, decimals }: SwapLeg): string =>
    `${plainAmount(amount, decimals)} ${words.token(mint, decimals, amount)}`;
  return `${user} swapped ${text(input)} for ${text(output)}`;
}

/** One side of a swap from the user's point of view. Keys are base58. */
export interface SwapLeg {
  readonly mint: string;
  /** Raw units. */
  readonly amount: bigint;
  readonly decimals: number;
  /** The user's token account; empty when no movement contains it. */
  readonly tokenAccount: string;
  /** Lamports: the user's account of wrapped SOL is closed in the transaction. */
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

/** Makes the leg of a mint, with the account of the first transfer out or the last transfer in. */
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

export interface Legs {
  readonly input: SwapLeg | null;
  readonly output: SwapLeg | null;
}

/** Owner of the source of the first transfer, if they signed: the fee payer may be another account. */
export function userOf(view: TransactionView, moves: readonly TokenMove[]): string {
  const [first] = moves;
  if (first === undefined || !view.isSigner(first.authority)) return view.feePayer;
  return view.key(first.sourceOwner);
}

/** The first token that the user gave, and the last one that they received. */
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

/** A trading program in the form of `programInfo`. */
interface Market {
  /** base58 */
  readonly account: string;
  readonly name: string;
  readonly source: string;
}

/** Programs missing from the published lists. */
const MORE: readonly Market[] = [
  { account: RAYDIUM_CLMM, name: 'RAYDIUM_CLMM', source: 'RAYDIUM' },
  { account: RAYDIUM_CPMM, name: 'RAYDIUM_CPMM', source: 'RAYDIUM' },
  { account: METEORA_DLMM, name: 'METEORA_DLMM', source: 'METEORA' },
  { account: METEORA_POOLS, name: 'METEORA_POOLS', source: 'METEORA' },
  { account: METEORA_DAMM_V2, name: 'METEORA_DAMM_V2', source: 'METEORA' },
  { account: INVARIANT, name: 'INVARIANT', source: 'INVARIANT' },
  { account: PHOENIX, name: 'PHOENIX', source: 'PHOENIX' },
  { account: OPENBOOK, name: 'OPENBOOK', source: 'OPENBOOK' },
  { account: OPENBOOK_V2, name: 'OPENBOOK_V2', source: 'OPENBOOK' },
  { account: SANCTUM_INFINITY, name: 'SANCTUM_INFINITY', source: 'SANCTUM' },
  { account: SANCTUM_ROUTER, name: 'SANCTUM_ROUTER', source: 'SANCTUM' },
  { account: PUMP_FUN, name: 'PUMP_FUN', source: 'PUMP_FUN' },
  { account: PUMP_AMM, name: 'PUMP_AMM', source: 'PUMP_AMM' },
  { account: DEVNET.RAYDIUM_LIQUIDITY_POOL_V4, name: 'RAYDIUM_LIQUIDITY_POOL_V4', source: 'RAYDIUM' },
  { account: DEVNET.RAYDIUM_CLMM, name: 'RAYDIUM_CLMM', source: 'RAYDIUM' },
  { account: DEVNET.RAYDIUM_CPMM, name: 'RAYDIUM_CPMM', source: 'RAYDIUM' },
  { account: DEVNET.OPENBOOK, name: 'OPENBOOK', source: 'OPENBOOK' },
];

/** Programs on which a user may trade without an aggregator. */
export const TRADING_PROGRAMS: readonly string[] = [
  ...MORE.map(({ account }) => account),
  AT.ORCA_WHIRLPOOLS,
  AT.ORCA_TOKEN_SWAP_V1,
  AT.ORCA_TOKEN_SWAP_V2,
  AT.LIFINITY,
  AT.LIFINITY_V2,
  AT.RAYDIUM_LIQUIDITY_POOL_V2,
  AT.RAYDIUM_LIQUIDITY_POOL_V3,
  AT.RAYDIUM_LIQUIDITY_POOL_V4,
  AT.ALDRIN_AMM_V1,
  AT.ALDRIN_AMM_V2,
  AT.SABER_STABLE_SWAP,
  AT.MERCURIAL_STABLE_SWAP,
  AT.STEP_FINANCE_SWAP_PROGRAM,
  AT.CYKURA,
  AT.CREMA_FINANCE,
  AT.STEPN,
  AT.SENCHA_EXCHANGE,
  AT.CROPPER,
  AT.SAROS_AMM,
  AT.SERUM_SWAP,
];

/** Names in the list of addresses that `programName` spells differently. */
const RENAMED: Readonly<Record<string, string>> = {
  STEP_FINANCE_SWAP_PROGRAM: 'STEP_FINANCE',
  CREMA_FINANCE: 'CREMA',
};
const SOURCE_OF: Readonly<Record<string, string>> = { HADE_SWAP: 'HADESWAP' };

const known = lazy(() => {
  const markets = new Map<string, Market>();
  for (const [published, account] of Object.entries(AT)) {
    const name = RENAMED[published] ?? published;
    if (PROGRAM_NAMES.includes(name)) markets.set(account, { account, name, source: sourceOf(name) });
  }
  for (const market of MORE) markets.set(market.account, market);
  return markets;
});

function sourceOf(name: string): string {
  const prefixes = SOURCES.filter((source) => name.startsWith(source));
  return SOURCE_OF[name] ?? prefixes.sort((left, right) => right.length - left.length)[0] ?? 'UNKNOWN';
}

/** Market of a program. Name and source of an unknown program are `UNKNOWN`. */
export function marketOf(account: string): Market {
  return known().get(account) ?? { account, name: 'UNKNOWN', source: 'UNKNOWN' };
}
