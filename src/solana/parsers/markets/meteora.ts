import { namedParser } from '../named/named-parser.ts';

/** Not among the published sources. */
const source = 'UNKNOWN';

export const meteoraBins = namedParser({
  name: 'meteora-bins',
  program: 'LBUZKhRxPF3XUpBCjp4YzTKgLccjZhTSDM9YuVaPwxo',
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
  program: 'cpamdpZCGKUy5JxQXB4dcpGPiikHawvSWAd6mEn1sGG',
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
  program: 'Eo7WjKq67rjJQSZxS6z3YkapzY3eMj6Xy8X5EQVn5UaB',
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
