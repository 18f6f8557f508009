/** Coded errors of this plugin. */
export const WALLET_ERRORS = {
  WALLET_NO_CHAIN: 'no upstream of the main chain is configured',
  WALLET_LABELS_UNREADABLE: 'a file of wallet.identity.files cannot be read',
} as const;
