import { DEVNET } from '../data/devnet-programs.ts';
import { PROGRAM_ADDRESSES } from '../data/program-addresses.ts';
import { namedParser } from '../named/named-parser.ts';
import { taggedParser } from '../named/tagged-parser.ts';

export const phoenix = taggedParser({
  name: 'phoenix',
  program: 'PhoeNiXZ8ByJGLkxNfZRnkUfjvmuYqLR89jjFHGqdXY',
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

/** Behind a byte of version. */
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
  ...{ name: 'serum', program: PROGRAM_ADDRESSES.SERUM_DEX_V3, source: 'SERUM' },
  ...{ types: SERUM_TYPES, tagAt: 1 },
});

export const openbook = taggedParser({
  ...{ name: 'openbook', program: 'srmqPvymJeFKQ4zGQed1GFppgkRHL9kaELCbyksJtPX', source: 'UNKNOWN' },
  ...{ devnet: DEVNET.OPENBOOK, types: SERUM_TYPES, tagAt: 1 },
});

export const openbookV2 = namedParser({
  name: 'openbook-v2',
  program: 'opnb2LAfJYbRMAHHvqjCwQxanZn7ReEHp1k81EohpZb',
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
