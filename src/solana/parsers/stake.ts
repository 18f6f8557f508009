import { u32At, u64At } from '../movements/instructions.ts';
import {
  MARINADE,
  PROGRAM_ADDRESSES,
  SANCTUM_INFINITY,
  SANCTUM_MULTI_POOL,
  SANCTUM_ROUTER,
  SANCTUM_SINGLE_POOL,
  STAKE_POOL_PROGRAM,
} from '../programs.ts';
import { namedParser, taggedParser } from './named.ts';
import { type Parsed, solAmount, type TransactionParser, type TransactionView, type ViewStep } from './parser.ts';
import { directSwap } from './swap.ts';

const SOURCE = 'STAKE_PROGRAM';
const PROGRAM = PROGRAM_ADDRESSES.STAKE_PROGRAM;
const TAG = { initialize: 0, delegate: 2, split: 3, withdraw: 4, deactivate: 5, merge: 7, initializeChecked: 9 };

export const stake: TransactionParser = {
  name: 'stake',
  programs: [PROGRAM],
  parse(view) {
    const steps = view.outer.filter(({ programId }) => programId === PROGRAM);
    const find = (...tags: number[]) => steps.find(({ data }) => tags.includes(u32At(data, 0)));
    const delegated = find(TAG.delegate);
    if (delegated !== undefined) return staked(view, delegated);
    const made = find(TAG.initialize, TAG.initializeChecked);
    if (made !== undefined) return { type: 'INIT_STAKE', source: SOURCE };
    const deactivated = find(TAG.deactivate);
    if (deactivated !== undefined) return unstaked(view, deactivated);
    const withdrawn = find(TAG.withdraw);
    if (withdrawn !== undefined) return withdrew(view, withdrawn);
    if (find(TAG.split) !== undefined) return { type: 'SPLIT_STAKE', source: SOURCE };
    return find(TAG.merge) === undefined ? null : { type: 'MERGE_STAKE', source: SOURCE };
  },
};

function staked(view: TransactionView, { accounts }: ViewStep): Parsed {
  const [account = -1] = accounts;
  const made = view.natives.find(({ to, createdFor }) => to === account && createdFor >= 0);
  const lamports = made?.amount ?? lamportsBefore(view, account);
  const describe = () => `${view.account(accounts[5])} staked ${solAmount(lamports)} SOL to ${view.account(account)}.`;
  return { type: 'STAKE_SOL', source: SOURCE, describe, hidesNative: made !== undefined };
}

function unstaked(view: TransactionView, { accounts }: ViewStep): Parsed {
  const [account = -1] = accounts;
  const amount = solAmount(lamportsBefore(view, account));
  const describe = () => `${view.account(accounts[2])} unstaked ${amount} SOL from ${view.account(account)}.`;
  return { type: 'UNSTAKE_SOL', source: SOURCE, describe };
}

function withdrew(view: TransactionView, { accounts, data }: ViewStep): Parsed | null {
  const lamports = u64At(data, 4);
  if (lamports === null) return null;
  const describe = () =>
    `${view.account(accounts[4])} withdrew ${solAmount(lamports)} SOL from ${view.account(accounts[0])}.`;
  return { type: 'WITHDRAW', source: SOURCE, describe };
}

const lamportsBefore = ({ tx }: TransactionView, account: number): bigint => BigInt(tx.preBalances[account] ?? 0);

export const marinade = namedParser({
  name: 'marinade',
  program: MARINADE,
  source: 'MARINADE',
  types: {
    deposit: 'STAKE_SOL',
    deposit_stake_account: 'STAKE_SOL',
    liquid_unstake: 'UNSTAKE_SOL',
    order_unstake: 'UNSTAKE_SOL',
    withdraw_stake_account: 'UNSTAKE_SOL',
    claim: 'WITHDRAW',
    add_liquidity: 'ADD_LIQUIDITY',
    remove_liquidity: 'REMOVE_LIQUIDITY',
  },
});

/** The pools of Jito, Sanctum and many others; without a published source. */
const POOL_TYPES = {
  9: 'STAKE_SOL',
  10: 'UNSTAKE_SOL',
  14: 'STAKE_SOL',
  16: 'UNSTAKE_SOL',
  23: 'STAKE_SOL',
  24: 'UNSTAKE_SOL',
  25: 'STAKE_SOL',
  26: 'UNSTAKE_SOL',
};

export const stakePool = taggedParser({
  name: 'stake-pool',
  program: STAKE_POOL_PROGRAM,
  source: 'UNKNOWN',
  types: POOL_TYPES,
});

export const sanctumSinglePool = taggedParser({
  name: 'sanctum-single-pool',
  program: SANCTUM_SINGLE_POOL,
  source: 'UNKNOWN',
  types: POOL_TYPES,
});

export const sanctumMultiPool = taggedParser({
  name: 'sanctum-multi-pool',
  program: SANCTUM_MULTI_POOL,
  source: 'UNKNOWN',
  types: POOL_TYPES,
});

/** A pool of many staked tokens; exchanges are read as swaps. */
export const sanctumInfinity = taggedParser({
  name: 'sanctum-infinity',
  program: SANCTUM_INFINITY,
  source: 'UNKNOWN',
  types: { 3: 'ADD_LIQUIDITY', 4: 'REMOVE_LIQUIDITY' },
});

/** Byte that identifies the instruction: exchanges one staked token for another, with own or lent funds. */
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

/** Exchanges staked tokens through their stake accounts. Without a published source. */
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

/** No movement shows what was exchanged. */
const SWAP_WITHOUT_LEGS: Parsed = { type: 'SWAP', source };

const isSwap = ({ programId, data }: ViewStep): boolean =>
  programId === SANCTUM_ROUTER && SWAPS.includes(data[0] ?? -1);
