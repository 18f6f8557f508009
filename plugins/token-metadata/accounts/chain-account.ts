import type { RawAccount } from '../../../src/solana/accounts/raw-account.ts';

/** An account with all that an answer tells of it. */
export interface ChainAccount extends RawAccount {
  readonly executable: boolean;
  readonly rentEpoch: bigint;
}

/** What one call found: the slot that it was answered at, and an entry for each key, null where there is no account. */
export interface ReadAccounts {
  readonly slot: number;
  readonly accounts: readonly (ChainAccount | null)[];
}
