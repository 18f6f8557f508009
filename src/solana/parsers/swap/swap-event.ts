import type { TokenMove } from '../../movements/movement.ts';
import { tokenTransfer } from '../token-transfer.ts';
import type { TransactionView } from '../view.ts';
import { plainAmount, type Words } from '../words.ts';
import type { SwapLeg } from './legs.ts';
import type { Market } from './markets.ts';

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
  /** base58: whoever owns the account, and the account itself. */
  readonly user: string;
  readonly account: string;
  readonly mint: string;
  readonly amount: bigint;
  readonly decimals: number;
  /** Told as lamports. */
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
