/** Coded errors of this plugin. */
export const WALLET_ERRORS = {
  WALLET_LABELS_UNREADABLE: 'a file of labels cannot be read',
  WALLET_NO_ADDRESS: 'what should be an address is none',
  WALLET_NO_OUTBOX: 'the kernel offers no outbox',
  WALLET_NO_TRANSACTION: 'an upstream lists a transaction that no upstream has',
} as const;
