import { namedParser, taggedParser } from './named.ts';
import type { TransactionParser } from './parser.ts';
import { DEVNET, PROGRAM_ADDRESSES } from './programs.ts';
import { directSwap } from './swap.ts';

const source = 'RAYDIUM';

/** Pool instructions other than swaps. */
export const raydiumLiquidity = taggedParser({
  name: 'raydium-liquidity',
  program: PROGRAM_ADDRESSES.RAYDIUM_LIQUIDITY_POOL_V4,
  devnet: DEVNET.RAYDIUM_LIQUIDITY_POOL_V4,
  source,
  types: { 0: 'CREATE_POOL', 1: 'CREATE_POOL', 3: 'ADD_LIQUIDITY', 4: 'WITHDRAW_LIQUIDITY' },
});

export const raydiumConcentrated = namedParser({
  name: 'raydium-concentrated',
  program: 'CAMMCzo5YL8w4VFF8KVHrK22GGUsp5VTaW7grrKgrWqK',
  devnet: DEVNET.RAYDIUM_CLMM,
  source,
  types: {
    create_pool: 'CREATE_POOL',
    open_position: 'ADD_LIQUIDITY',
    open_position_v2: 'ADD_LIQUIDITY',
    open_position_with_token22_nft: 'ADD_LIQUIDITY',
    increase_liquidity: 'ADD_LIQUIDITY',
    increase_liquidity_v2: 'ADD_LIQUIDITY',
    decrease_liquidity: 'WITHDRAW_LIQUIDITY',
    decrease_liquidity_v2: 'WITHDRAW_LIQUIDITY',
  },
});

export const raydiumConstantProduct = namedParser({
  name: 'raydium-constant-product',
  program: 'CPMMoo8L3F4NbTegBCKVNunggL7H1ZpdTHKxQB5qKP1C',
  devnet: DEVNET.RAYDIUM_CPMM,
  source,
  types: {
    initialize: 'CREATE_POOL',
    initialize_with_permission: 'CREATE_POOL',
    deposit: 'ADD_LIQUIDITY',
    withdraw: 'WITHDRAW_LIQUIDITY',
  },
});

const PROGRAMS: readonly string[] = [PROGRAM_ADDRESSES.RAYDIUM_LIQUIDITY_POOL_V4, DEVNET.RAYDIUM_LIQUIDITY_POOL_V4];
/** By exact input, and by exact output. */
const SWAPS = [9, 11];

export const raydiumPool: TransactionParser = {
  name: 'raydium-pool',
  programs: PROGRAMS,
  parse: (view) =>
    directSwap(view, 'RAYDIUM', ({ programId, data }) => PROGRAMS.includes(programId) && SWAPS.includes(data[0] ?? -1)),
};
