import { DEVNET } from '../data/devnet-programs.ts';
import { PROGRAM_ADDRESSES } from '../data/program-addresses.ts';
import type { TransactionParser } from '../parser.ts';
import { directSwap } from '../swap/direct-swap.ts';

const PROGRAMS: readonly string[] = [PROGRAM_ADDRESSES.RAYDIUM_LIQUIDITY_POOL_V4, DEVNET.RAYDIUM_LIQUIDITY_POOL_V4];
/** By exact input, and by exact output. */
const SWAPS = [9, 11];

export const raydiumPool: TransactionParser = {
  name: 'raydium-pool',
  programs: PROGRAMS,
  parse: (view) =>
    directSwap(view, 'RAYDIUM', ({ programId, data }) => PROGRAMS.includes(programId) && SWAPS.includes(data[0] ?? -1)),
};
