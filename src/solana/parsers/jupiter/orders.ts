import { PROGRAM_ADDRESSES } from '../data/program-addresses.ts';
import { namedParser } from '../named/named-parser.ts';

const source = 'JUPITER';
const LIMIT_TYPES = {
  initialize_order: 'CREATE_ORDER',
  fill_order: 'FILL_ORDER',
  pre_flash_fill_order: 'FILL_ORDER',
  flash_fill_order: 'FILL_ORDER',
  cancel_order: 'CANCEL_ORDER',
  cancel_expired_order: 'CANCEL_ORDER',
};

export const jupiterLimit = namedParser({
  ...{ name: 'jupiter-limit', program: PROGRAM_ADDRESSES.JUPITER_LIMIT_ORDER, source, types: LIMIT_TYPES },
});

export const jupiterLimitV2 = namedParser({
  ...{ name: 'jupiter-limit-v2', program: 'j1o2qRpjcyUwEvwtcfhEQefh773ZgjxcVRry7LDqg5X', source, types: LIMIT_TYPES },
});

/** Orders that are filled bit by bit. */
export const jupiterRecurring = namedParser({
  name: 'jupiter-recurring',
  program: 'DCA265Vj8a9CEuX1eb1LWRnDT7uK6q1xMipnNyatn23M',
  source,
  types: {
    open_dca: 'CREATE_ORDER',
    open_dca_v2: 'CREATE_ORDER',
    initiate_flash_fill: 'FILL_ORDER',
    fulfill_flash_fill: 'FILL_ORDER',
    initiate_dlmm_fill: 'FILL_ORDER',
    close_dca: 'CLOSE_ORDER',
    end_and_close: 'CLOSE_ORDER',
    deposit: 'DEPOSIT',
    withdraw: 'WITHDRAW',
  },
});
