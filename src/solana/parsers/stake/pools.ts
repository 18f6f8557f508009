import { namedParser } from '../named/named-parser.ts';
import { taggedParser } from '../named/tagged-parser.ts';

export const marinade = namedParser({
  name: 'marinade',
  program: 'MarBmsSgKXdrN1egZf5sqe1TMai9K1rChYNDJgjq7aD',
  source: 'MARINADE',
  types: {
    deposit: 'STAKE_SOL',
    deposit_stake_account: 'STAKE_SOL',
    liquid_unstake: 'UNSTAKE_SOL',
    order_unstake: 'UNSTAKE_SOL',
    withdraw_stake_account: 'UNSTAKE_SOL',
    claim: 'WITHDRAW',
    add_liquidity: 'ADD_LIQUIDITY',
    remove_liquidity: 'REMOVE_LIQUIDITY',
  },
});

/** The pools of Jito, Sanctum and many others; a source of their own is not published. */
const POOL_TYPES = {
  9: 'STAKE_SOL',
  10: 'UNSTAKE_SOL',
  14: 'STAKE_SOL',
  16: 'UNSTAKE_SOL',
  23: 'STAKE_SOL',
  24: 'UNSTAKE_SOL',
  25: 'STAKE_SOL',
  26: 'UNSTAKE_SOL',
};

export const stakePool = taggedParser({
  ...{ name: 'stake-pool', program: 'SPoo1Ku8WFXoNDMHPsrGSTSG1Y47rzgn41SLUNakuHy', source: 'UNKNOWN' },
  types: POOL_TYPES,
});

export const sanctumSinglePool = taggedParser({
  ...{ name: 'sanctum-single-pool', program: 'SP12tWFxD9oJsVWNavTTBZvMbA6gkAmxtVgxdqvyvhY', source: 'UNKNOWN' },
  types: POOL_TYPES,
});

export const sanctumMultiPool = taggedParser({
  ...{ name: 'sanctum-multi-pool', program: 'SPMBzsVUuoHA4Jm6KunbsotaahvVikZs1JyTW6iJvbn', source: 'UNKNOWN' },
  types: POOL_TYPES,
});

/** A pool of many staked tokens; what it exchanges is read as a swap. */
export const sanctumInfinity = taggedParser({
  ...{ name: 'sanctum-infinity', program: '5ocnV1qiCgaQR8Jb8xWnVbApfaygJ8tNoZfgPwsgx9kx', source: 'UNKNOWN' },
  types: { 3: 'ADD_LIQUIDITY', 4: 'REMOVE_LIQUIDITY' },
});
