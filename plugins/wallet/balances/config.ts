/** Keys of the `wallet` section that belong to balances. */
export const balancesKeys = {};
