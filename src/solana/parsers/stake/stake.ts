import { u32At, u64At } from '../../movements/little-endian.ts';
import { PROGRAM_ADDRESSES } from '../data/program-addresses.ts';
import type { Parsed, TransactionParser } from '../parser.ts';
import type { TransactionView, ViewStep } from '../view.ts';
import { solAmount } from '../words.ts';

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
