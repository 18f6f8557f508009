/** Coded errors of this plugin. */
export const WALLET_ERRORS = {
  WALLET_ASSETS_BAD_ANSWER: 'the asset API of wallet.balances.dasUrl gives an answer that cannot be used',
  WALLET_BEHIND: 'the upstream has not come to a slot that was shown already',
  WALLET_BUDGET: 'the plan of the project has no room for another wallet, or for its transactions',
  WALLET_INDEX_FULL: 'as many wallets are indexed as wallet.limits.wallets allows',
  WALLET_LABELS_UNREADABLE: 'a file of wallet.identity.files cannot be read',
  WALLET_NOT_A_WALLET: 'the address is a program, a sysvar or a native id',
  WALLET_NO_ADDRESS: 'what should be an address is none',
  WALLET_NO_OUTBOX: 'the kernel offers no outbox',
  WALLET_NO_TRANSACTION: 'an upstream lists a transaction that no upstream has',
  WALLET_NUMBER_TAKEN: 'another wallet has the number of this one',
  WALLET_STOPPED: 'the daemon stops',
  WALLET_TOO_BUSY: 'the address has more transactions a minute than wallet.limits.transactionsPerMinute',
  WALLET_TOO_LARGE: 'the address has more transactions than wallet.limits.transactions',
  WALLET_TOO_MANY_NEW: 'the project starts more wallets a minute than its plan allows',
  WALLET_UNKNOWN: 'the wallet is not indexed',
} as const;
