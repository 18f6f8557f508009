import { namedParser } from '../named/named-parser.ts';

/** What is done to pools beside swaps. */
export const pumpAmm = namedParser({
  name: 'pump-amm',
  program: 'pAMMBay6oceH9fJKBRHGP5D4bD4sWpmSwMn52FMfXEA',
  source: 'PUMP_AMM',
  types: { create_pool: 'CREATE_POOL', deposit: 'DEPOSIT', withdraw: 'WITHDRAW' },
});
