/** Keys of the `wallet` section that belong to identities. */
export const identityKeys = {};
