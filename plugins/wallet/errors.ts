/** Coded errors of this plugin. */
export const WALLET_ERRORS = {
  WALLET_ASSETS_WITHHELD: 'compressed NFTs are withheld while a tree of them is read',
  WALLET_ASSETS_BAD_ANSWER: 'the asset API of wallet.balances.dasUrl returned an invalid response',
  WALLET_BEHIND: 'the upstream has not reached a slot that was already returned',
  WALLET_BUDGET: 'the plan of the project has no room for another wallet, or for its transactions',
  WALLET_INDEX_FULL: 'the limit wallet.limits.wallets is reached',
  WALLET_LABELS_UNREADABLE: 'a file of wallet.identity.files cannot be read',
  WALLET_NOT_A_WALLET: 'the address is a program, a sysvar or a native id',
  WALLET_NO_ADDRESS: 'an address is invalid',
  WALLET_NO_OUTBOX: 'the kernel has no outbox',
  WALLET_NO_TRANSACTION: 'an upstream lists a transaction that no upstream has',
  WALLET_NUMBER_TAKEN: 'two wallets have the same number',
  WALLET_STOPPED: 'the daemon is stopping',
  WALLET_TOO_BUSY: 'the address has more transactions a minute than wallet.limits.transactionsPerMinute',
  WALLET_TOO_LARGE: 'the address has more transactions than wallet.limits.transactions',
  WALLET_TOO_MANY_NEW: 'the project starts more wallets a minute than its plan allows',
  WALLET_UNKNOWN: 'the wallet is not indexed',
} as const;
