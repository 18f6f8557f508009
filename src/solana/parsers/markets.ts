import {
  DEVNET,
  METEORA_DAMM_V2,
  METEORA_DLMM,
  METEORA_POOLS,
  OPENBOOK,
  OPENBOOK_V2,
  PHOENIX,
  PROGRAM_ADDRESSES,
  RAYDIUM_CLMM,
  RAYDIUM_CPMM,
} from '../programs.ts';
import { namedParser, taggedParser } from './named.ts';
import type { TransactionParser } from './parser.ts';
import { directSwap } from './swap.ts';

/** Without a published source. */
const source = 'UNKNOWN';

export const meteoraBins = namedParser({
  name: 'meteora-bins',
  program: METEORA_DLMM,
  source,
  types: {
    initialize_lb_pair: 'INITIALIZE_LB_PAIR',
    initialize_lb_pair2: 'INITIALIZE_LB_PAIR',
    initialize_permission_lb_pair: 'INITIALIZE_PERMISSION_LB_PAIR',
    initialize_customizable_permissionless_lb_pair: 'INITIALIZE_CUSTOMIZABLE_PERMISSIONLESS_LB_PAIR',
    initialize_customizable_permissionless_lb_pair2: 'INITIALIZE_CUSTOMIZABLE_PERMISSIONLESS_LB_PAIR',
    initialize_bin_array: 'INITIALIZE_BIN_ARRAY',
    initialize_bin_array_bitmap_extension: 'INITIALIZE_BIN_ARRAY_BITMAP_EXTENSION',
    initialize_position: 'INITIALIZE_POSITION',
    initialize_position2: 'INITIALIZE_POSITION',
    initialize_position_pda: 'INITIALIZE_POSITION_PDA',
    initialize_position_by_operator: 'INITIALIZE_POSITION_BY_OPERATOR',
    initialize_reward: 'INITIALIZE_REWARD',
    fund_reward: 'FUND_REWARD',
    increase_oracle_length: 'INCREASE_ORACLE_LENGTH',
    go_to_a_bin: 'GO_TO_A_BIN',
    update_fees_and_rewards: 'UPDATE_FEES_AND_REWARDS',
    migrate_position: 'MIGRATE_POSITION',
    migrate_bin_array: 'MIGRATE_BIN_ARRAY',
    add_liquidity: 'ADD_LIQUIDITY',
    add_liquidity2: 'ADD_LIQUIDITY',
    add_liquidity_by_strategy: 'ADD_LIQUIDITY_BY_STRATEGY',
    add_liquidity_by_strategy2: 'ADD_LIQUIDITY_BY_STRATEGY',
    add_liquidity_by_strategy_one_side: 'ADD_LIQUIDITY_BY_STRATEGY_ONE_SIDE',
    add_liquidity_by_weight: 'ADD_LIQUIDITY_BY_WEIGHT',
    add_liquidity_one_side: 'ADD_LIQUIDITY_ONE_SIDE',
    add_liquidity_one_side_precise: 'ADD_LIQUIDITY_ONE_SIDE_PRECISE',
    remove_liquidity: 'REMOVE_LIQUIDITY',
    remove_liquidity2: 'REMOVE_LIQUIDITY',
    remove_all_liquidity: 'REMOVE_ALL_LIQUIDITY',
    remove_liquidity_by_range: 'REMOVE_LIQUIDITY_BY_RANGE',
    remove_liquidity_by_range2: 'REMOVE_LIQUIDITY_BY_RANGE',
    claim_fee: 'CLAIM_FEE',
    claim_fee2: 'CLAIM_FEE',
    claim_reward: 'CLAIM_REWARD',
    claim_reward2: 'CLAIM_REWARD',
    close_position: 'CLOSE_POSITION',
    close_position2: 'CLOSE_POSITION',
  },
});

export const meteoraDynamic = namedParser({
  name: 'meteora-dynamic',
  program: METEORA_DAMM_V2,
  source,
  types: {
    initialize_pool: 'CREATE_POOL',
    initialize_pool_with_dynamic_config: 'CREATE_POOL',
    initialize_customizable_pool: 'CREATE_POOL',
    create_position: 'OPEN_POSITION',
    add_liquidity: 'ADD_LIQUIDITY',
    remove_liquidity: 'REMOVE_LIQUIDITY',
    remove_all_liquidity: 'REMOVE_ALL_LIQUIDITY',
    claim_position_fee: 'CLAIM_FEE',
    claim_reward: 'CLAIM_REWARD',
    close_position: 'CLOSE_POSITION',
  },
});

export const meteoraPools = namedParser({
  name: 'meteora-pools',
  program: METEORA_POOLS,
  source,
  types: {
    initialize_permissioned_pool: 'INIT_PERMISSIONED_POOL',
    initialize_permissionless_pool: 'INIT_PERMISSIONLESS_POOL',
    initialize_permissionless_pool_with_fee_tier: 'INIT_PERMISSIONLESS_POOL_WITH_FEE_TIER',
    initialize_permissionless_constant_product_pool_with_config:
      'INIT_PERMISSIONLESS_CONSTANT_PRODUCT_POOL_WITH_CONFIG',
    initialize_permissionless_constant_product_pool_with_config2:
      'INIT_PERMISSIONLESS_CONSTANT_PRODUCT_POOL_WITH_CONFIG_2',
    initialize_customizable_permissionless_constant_product_pool:
      'INIT_CUSTOMIZABLE_PERMISSIONLESS_CONSTANT_PRODUCT_POOL',
    create_mint_metadata: 'CREATE_MINT_METADATA',
    lock: 'LOCK',
    partner_claim_fee: 'PARTNER_CLAIM_FEE',
    add_balance_liquidity: 'ADD_BALANCE_LIQUIDITY',
    add_imbalance_liquidity: 'ADD_IMBALANCE_LIQUIDITY',
    remove_balance_liquidity: 'REMOVE_BALANCE_LIQUIDITY',
    remove_liquidity_single_side: 'REMOVE_LIQUIDITY_SINGLE_SIDE',
    bootstrap_liquidity: 'BOOTSTRAP_LIQUIDITY',
    create_lock_escrow: 'CREATE_LOCK_ESCROW',
    claim_fee: 'CLAIM_FEE',
  },
});

export const whirlpool = namedParser({
  name: 'whirlpool',
  program: PROGRAM_ADDRESSES.ORCA_WHIRLPOOLS,
  source: 'ORCA',
  types: {
    initialize_pool: 'INIT_POOL',
    initialize_pool_v2: 'INIT_POOL_V2',
    initialize_tick_array: 'INIT_TICK_ARRAY',
    open_position: 'OPEN_POSITION',
    open_position_with_metadata: 'OPEN_POSITION_WITH_METADATA',
    open_position_with_token_extensions: 'OPEN_POSITION',
    close_position: 'CLOSE_POSITION',
    close_position_with_token_extensions: 'CLOSE_POSITION',
    increase_liquidity: 'INCREASE_LIQUIDITY',
    increase_liquidity_v2: 'INCREASE_LIQUIDITY',
    decrease_liquidity: 'DECREASE_LIQUIDITY',
    decrease_liquidity_v2: 'DECREASE_LIQUIDITY',
    update_fees_and_rewards: 'UPDATE_FEES_AND_REWARDS',
    collect_fees: 'COLLECT_FEES',
    collect_fees_v2: 'COLLECT_FEES',
    collect_reward: 'COLLECT_REWARD',
    collect_reward_v2: 'COLLECT_REWARD',
    initialize_position_bundle: 'INIT_POSITION_BUNDLE',
    initialize_position_bundle_with_metadata: 'INIT_POSITION_BUNDLE_WITH_METADATA',
    delete_position_bundle: 'DELETE_POSITION_BUNDLE',
    open_bundled_position: 'OPEN_BUNDLED_POSITION',
    close_bundled_position: 'CLOSE_BUNDLED_POSITION',
  },
});

export const phoenix = taggedParser({
  name: 'phoenix',
  program: PHOENIX,
  source: 'UNKNOWN',
  types: {
    0: 'SWAP',
    1: 'SWAP',
    2: 'PLACE_ORDER',
    3: 'PLACE_ORDER',
    4: 'REDUCE_ORDER',
    5: 'REDUCE_ORDER',
    6: 'CANCEL_ALL_ORDERS',
    7: 'CANCEL_ALL_ORDERS',
    8: 'CANCEL_UP_TO',
    9: 'CANCEL_UP_TO',
    10: 'CANCEL_MULTIPLE_ORDERS',
    11: 'CANCEL_MULTIPLE_ORDERS',
    12: 'WITHDRAW',
    13: 'DEPOSIT',
    14: 'REQUEST_SEAT',
    15: 'LOG',
    16: 'PLACE_MULTIPLE_POST_ONLY_ORDERS',
    17: 'PLACE_MULTIPLE_POST_ONLY_ORDERS',
    100: 'INITIALIZE_MARKET',
    101: 'CLAIM_AUTHORITY',
    102: 'NAME_SUCCESSOR',
    103: 'CHANGE_MARKET_STATUS',
    104: 'CHANGE_SEAT_STATUS',
    105: 'REQUEST_SEAT_AUTHORIZED',
    106: 'EVICT_SEAT',
    107: 'FORCE_CANCEL_ORDERS',
    108: 'COLLECT_FEES',
    109: 'CHANGE_FEE_RECIPIENT',
  },
});

/** After a version byte. */
const SERUM_TYPES = {
  0: 'INITIALIZE_MARKET',
  1: 'PLACE_ORDER',
  3: 'CONSUME_EVENTS',
  4: 'CANCEL_ORDER',
  5: 'SETTLE_FUNDS',
  6: 'CANCEL_ORDER_BY_CLIENT_ORDER_ID',
  8: 'SWEEP_FEES',
  9: 'PLACE_ORDER',
  10: 'PLACE_ORDER',
  11: 'CANCEL_ORDER',
  12: 'CANCEL_ORDER_BY_CLIENT_ORDER_ID',
  13: 'PLACE_TAKE_ORDER',
  14: 'CLOSE_OPEN_ORDERS_ACCOUNT',
  15: 'CREATE_OPEN_ORDERS_ACCOUNT',
  16: 'PRUNE_ORDERS',
  17: 'CONSUME_EVENTS',
};

export const serum = taggedParser({
  name: 'serum',
  program: PROGRAM_ADDRESSES.SERUM_DEX_V3,
  source: 'SERUM',
  types: SERUM_TYPES,
  tagAt: 1,
});

export const openbook = taggedParser({
  name: 'openbook',
  program: OPENBOOK,
  source: 'UNKNOWN',
  devnet: DEVNET.OPENBOOK,
  types: SERUM_TYPES,
  tagAt: 1,
});

export const openbookV2 = namedParser({
  name: 'openbook-v2',
  program: OPENBOOK_V2,
  source: 'UNKNOWN',
  types: {
    create_market: 'CREATE_MARKET',
    close_market: 'CLOSE_MARKET',
    create_open_orders_indexer: 'CREATE_OPEN_ORDERS_INDEXER',
    close_open_orders_indexer: 'CLOSE_OPEN_ORDERS_INDEXER',
    create_open_orders_account: 'CREATE_OPEN_ORDERS_ACCOUNT',
    close_open_orders_account: 'CLOSE_OPEN_ORDERS_ACCOUNT',
    place_order: 'PLACE_ORDER',
    place_order_pegged: 'PLACE_ORDER_PEGGED',
    place_orders: 'PLACE_ORDERS',
    place_take_order: 'PLACE_TAKE_ORDER',
    cancel_all_and_place_orders: 'CANCEL_ALL_AND_PLACE_ORDERS',
    edit_order: 'EDIT_ORDER',
    edit_order_pegged: 'EDIT_ORDER_PEGGED',
    cancel_order: 'CANCEL_ORDER',
    cancel_order_by_client_order_id: 'CANCEL_ORDER_BY_CLIENT_ORDER_ID',
    cancel_all_orders: 'CANCEL_ALL_ORDERS',
    consume_events: 'CONSUME_EVENTS',
    consume_given_events: 'CONSUME_GIVEN_EVENTS',
    settle_funds: 'SETTLE_FUNDS',
    settle_funds_expired: 'SETTLE_FUNDS_EXPIRED',
    prune_orders: 'PRUNE_ORDERS',
    deposit: 'DEPOSIT',
    refill: 'REFILL',
    sweep_fees: 'SWEEP_FEES',
    set_delegate: 'SET_DELEGATE',
    set_market_expired: 'SET_MARKET_EXPIRED',
    stub_oracle_create: 'STUB_ORACLE_CREATE',
    stub_oracle_close: 'STUB_ORACLE_CLOSE',
    stub_oracle_set: 'STUB_ORACLE_SET',
  },
});

const RAYDIUM = 'RAYDIUM';

/** Pool instructions of Raydium other than swaps. */
export const raydiumLiquidity = taggedParser({
  name: 'raydium-liquidity',
  program: PROGRAM_ADDRESSES.RAYDIUM_LIQUIDITY_POOL_V4,
  devnet: DEVNET.RAYDIUM_LIQUIDITY_POOL_V4,
  source: RAYDIUM,
  types: { 0: 'CREATE_POOL', 1: 'CREATE_POOL', 3: 'ADD_LIQUIDITY', 4: 'WITHDRAW_LIQUIDITY' },
});

export const raydiumConcentrated = namedParser({
  name: 'raydium-concentrated',
  program: RAYDIUM_CLMM,
  devnet: DEVNET.RAYDIUM_CLMM,
  source: RAYDIUM,
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
  program: RAYDIUM_CPMM,
  devnet: DEVNET.RAYDIUM_CPMM,
  source: RAYDIUM,
  types: {
    initialize: 'CREATE_POOL',
    initialize_with_permission: 'CREATE_POOL',
    deposit: 'ADD_LIQUIDITY',
    withdraw: 'WITHDRAW_LIQUIDITY',
  },
});

const RAYDIUM_POOLS: readonly string[] = [
  PROGRAM_ADDRESSES.RAYDIUM_LIQUIDITY_POOL_V4,
  DEVNET.RAYDIUM_LIQUIDITY_POOL_V4,
];
/** By exact input, and by exact output. */
const RAYDIUM_SWAPS = [9, 11];

export const raydiumPool: TransactionParser = {
  name: 'raydium-pool',
  programs: RAYDIUM_POOLS,
  parse: (view) =>
    directSwap(
      view,
      RAYDIUM,
      ({ programId, data }) => RAYDIUM_POOLS.includes(programId) && RAYDIUM_SWAPS.includes(data[0] ?? -1),
    ),
};
