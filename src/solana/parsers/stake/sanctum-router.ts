import type { Parsed, TransactionParser } from '../parser.ts';
import { SANCTUM_ROUTER } from '../program-ids.ts';
import { directSwap } from '../swap/direct-swap.ts';
import type { ViewStep } from '../view.ts';

/** The byte that tells the instruction: one staked token becomes another one, with its own means or with lent ones. */
const SWAPS = [1, 7];
const TYPES: Readonly<Record<number, string>> = {
  0: 'STAKE_SOL',
  2: 'INITIALIZE_ACCOUNT',
  3: 'CLOSE_ACCOUNT',
  4: 'COLLECT_FEES',
  5: 'STAKE_SOL',
  6: 'UNSTAKE_SOL',
};
const source = 'UNKNOWN';

/** Exchanges staked tokens by way of the stake accounts behind them. A source of its own is not published. */
export const sanctumRouter: TransactionParser = {
  name: 'sanctum-router',
  programs: [SANCTUM_ROUTER],
  outcomes: ['SWAP', ...Object.values(TYPES)].map((type) => ({ type, source })),
  parse(view) {
    for (const { programId, data } of view.outer) {
      const tag = programId === SANCTUM_ROUTER ? (data[0] ?? -1) : -1;
      if (SWAPS.includes(tag)) return directSwap(view, source, isSwap) ?? SWAP_WITHOUT_LEGS;
      const type = TYPES[tag];
      if (type !== undefined) return { type, source };
    }
    return null;
  },
};

/** Nothing shows what was exchanged. */
const SWAP_WITHOUT_LEGS: Parsed = { type: 'SWAP', source };

const isSwap = ({ programId, data }: ViewStep): boolean =>
  programId === SANCTUM_ROUTER && SWAPS.includes(data[0] ?? -1);
