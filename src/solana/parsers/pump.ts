import { encode32 } from '../../lib/base58.ts';
import { u64At } from '../movements/instructions.ts';
import { PUMP_AMM, PUMP_FUN, WRAPPED_SOL_MINT } from '../programs.ts';
import { anchorDiscriminator, namedParser } from './named.ts';
import { discriminatorOf, type Parsed, type TransactionParser, type TransactionView, type ViewStep } from './parser.ts';
import { describeSwap, legOf, marketOf, type SwapFacts, type SwapLeg, swapEvents } from './swap.ts';

const SELF_CALL = 'e445a52e51cb9a1d';
const TRADE_EVENT = 'bddb7fd34ee661ee';
const TRADE_BYTES = 97;
/** Without a published source. */
const SOURCE = 'UNKNOWN';

interface Trade {
  readonly mint: string;
  readonly user: string;
  readonly isBuy: boolean;
  /** Lamports, without fees. */
  readonly sol: bigint;
  readonly tokens: bigint;
}

const creation = namedParser({
  name: 'pump-fun-create',
  program: PUMP_FUN,
  source: SOURCE,
  types: { create: 'CREATE', create_v2: 'CREATE' },
});

/** Trades with a bonding curve. The program emits them, since it pays out lamports without an instruction. */
export const pumpFun: TransactionParser = {
  name: 'pump-fun',
  programs: [PUMP_FUN],
  parse(view) {
    const made = creation.parse(view);
    if (made !== null) return made;
    const asked = view.outer.find(({ programId, data }) => programId === PUMP_FUN && isTrade(data));
    if (asked === undefined) return null;
    const event = view.steps.find((step) => step.outer === asked.outer && readTrade(step) !== null);
    const trade = event === undefined ? null : readTrade(event);
    return trade === null ? { type: 'SWAP', source: SOURCE } : traded(view, asked, trade);
  },
};

const isTrade = (data: Uint8Array): boolean =>
  ['buy', 'sell', 'buy_exact_sol_in'].some((name) => anchorDiscriminator(name) === discriminatorOf(data));

function readTrade({ programId, data }: ViewStep): Trade | null {
  if (programId !== PUMP_FUN || data.length < TRADE_BYTES) return null;
  if (discriminatorOf(data) !== SELF_CALL || discriminatorOf(data, 8) !== TRADE_EVENT) return null;
  return {
    mint: encode32(data, 16),
    sol: u64At(data, 48)!,
    tokens: u64At(data, 56)!,
    isBuy: data[64] === 1,
    user: encode32(data, 65),
  };
}

function traded(view: TransactionView, { outer }: ViewStep, { mint, user, isBuy, sol, tokens }: Trade): Parsed {
  const moves = view.tokens.filter((move) => move.outer === outer && move.inner >= 0);
  const native: SwapLeg = { mint: WRAPPED_SOL_MINT, amount: sol, decimals: 9, tokenAccount: '', isNative: true };
  const token = legOf(view, moves, user, isBuy ? 1 : -1, mint, tokens);
  const facts: SwapFacts = {
    user,
    fees: [],
    input: isBuy ? native : token,
    output: isBuy ? token : native,
    inner: [
      {
        market: marketOf(PUMP_FUN),
        instructionName: isBuy ? 'buy' : 'sell',
        fees: [],
        inputs: isBuy ? [] : moves,
        outputs: isBuy ? moves : [],
      },
    ],
  };
  return {
    type: 'SWAP',
    source: SOURCE,
    describe: (words) => describeSwap(words, facts),
    events: (words) => swapEvents(view, words, facts),
  };
}

/** Pool instructions other than swaps. */
export const pumpAmm = namedParser({
  name: 'pump-amm',
  program: PUMP_AMM,
  source: 'PUMP_AMM',
  types: { create_pool: 'CREATE_POOL', deposit: 'DEPOSIT', withdraw: 'WITHDRAW' },
});
