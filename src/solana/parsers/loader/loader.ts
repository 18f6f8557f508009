import { u32At } from '../../movements/little-endian.ts';
import { PROGRAM_ADDRESSES as AT } from '../data/program-addresses.ts';
import type { TransactionParser } from '../parser.ts';

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
