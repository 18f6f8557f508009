/** Coded errors of this plugin. */
export const WALLET_ERRORS = {
  WALLET_NO_CHAIN: 'no upstream of the main chain is configured',
} as const;
