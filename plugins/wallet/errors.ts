/** Coded errors of this plugin. */
export const WALLET_ERRORS = {
  WALLET_ASSETS_BAD_ANSWER: 'the asset API of wallet.balances.dasUrl gives an answer that cannot be used',
  WALLET_LABELS_UNREADABLE: 'a file of wallet.identity.files cannot be read',
  WALLET_NO_ADDRESS: 'what should be an address is none',
  WALLET_NUMBER_TAKEN: 'another wallet has the number of this one',
  WALLET_NO_OUTBOX: 'the kernel offers no outbox',
  WALLET_UNKNOWN: 'the wallet is not indexed',
  WALLET_STOPPED: 'the daemon stops',
  WALLET_NO_TRANSACTION: 'an upstream lists a transaction that no upstream has',
} as const;
