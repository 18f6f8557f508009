import { SYSTEM_PROGRAM } from '../addresses.ts';
import { nativeChange } from '../movements/balance-changes.ts';
import { u32At } from '../movements/instructions.ts';
import type { TransactionParser, TransactionView } from './parser.ts';
import { PROGRAM_ADDRESSES as AT } from './programs.ts';
import { isPlain } from './token.ts';

import { solAmount } from './words.ts';

export const systemTransfer: TransactionParser = {
  name: 'system-transfer',
  programs: [SYSTEM_PROGRAM],
  parse(view) {
    const isAny = view.natives.some(
      ({ inner, kind }) => inner < 0 && (kind === 'transfer' || kind === 'transferWithSeed'),
    );
    if (!isAny || !isPlain(view)) return null;
    return { type: 'TRANSFER', source: 'SYSTEM_PROGRAM', describe: () => describe(view) };
  },
};

function describe(view: TransactionView): string {
  const moves = view.natives.filter(({ kind }) => kind !== 'closeWrapped');
  const [first] = moves;
  if (first === undefined) return '';
  const isFromOne = moves.every(({ from }) => from === first.from);
  const isToOne = moves.every(({ to }) => to === first.to);
  if (isFromOne && first.from === 0 && !isToOne) {
    // Includes the fee and everything that left the payer's account.
    const total = solAmount(-nativeChange(view.tx, 0));
    return `${view.feePayer} transferred a total ${total} SOL to multiple accounts.`;
  }
  // Where others gave something too, the first movement represents all.
  const amount = isFromOne && isToOne ? moves.reduce((sum, move) => sum + move.amount, 0n) : first.amount;
  return `${view.account(first.from)} transferred ${solAmount(amount)} SOL to ${view.account(first.to)}.`;
}

const UPGRADE = 3;
const FINALIZE = 1;

export const loader: TransactionParser = {
  name: 'loader',
  programs: [AT.BPF_UPGRADEABLE_LOADER, AT.BPF_LOADER],
  parse({ outer }) {
    const has = (program: string, tag: number) =>
      outer.some(({ programId, data }) => programId === program && u32At(data, 0) === tag);
    if (has(AT.BPF_UPGRADEABLE_LOADER, UPGRADE))
      return { type: 'UPGRADE_PROGRAM_INSTRUCTION', source: 'BPF_UPGRADEABLE_LOADER' };
    return has(AT.BPF_LOADER, FINALIZE) ? { type: 'FINALIZE_PROGRAM_INSTRUCTION', source: 'BPF_LOADER' } : null;
  },
};
