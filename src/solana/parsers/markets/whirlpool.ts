import { PROGRAM_ADDRESSES } from '../data/program-addresses.ts';
import { namedParser } from '../named/named-parser.ts';

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
