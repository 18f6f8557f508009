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
    initialize_position: 'INITIALIZE_POSITION',
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

export const meteoraPools = namedParser({
  name: 'meteora-pools',
  program: 'Eo7WjKq67rjJQSZxS6z3YkapzY3eMj6Xy8X5EQVn5UaB',
  source,
  types: {
    add_balance_liquidity: 'ADD_BALANCE_LIQUIDITY',
    add_imbalance_liquidity: 'ADD_IMBALANCE_LIQUIDITY',
    remove_balance_liquidity: 'REMOVE_BALANCE_LIQUIDITY',
    remove_liquidity_single_side: 'REMOVE_LIQUIDITY_SINGLE_SIDE',
    bootstrap_liquidity: 'BOOTSTRAP_LIQUIDITY',
    create_lock_escrow: 'CREATE_LOCK_ESCROW',
    claim_fee: 'CLAIM_FEE',
  },
});
