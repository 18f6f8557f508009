import { keyBytes } from './ledger/accounts.ts';
import { type Bank, setAccount } from './ledger/bank.ts';
import { MAX_RENT_EPOCH } from './vm/vm.ts';

/** An account as callers give it. */
export interface AccountInput {
  readonly lamports: number | bigint;
  readonly data: Uint8Array;
  /** base58 */
  readonly owner: string;
  readonly executable?: boolean;
}

/** Sets an account at once; null removes it. */
export function setAccountInput(bank: Bank, address: string, account: AccountInput | null): void {
  if (account === null) {
    setAccount(bank, address, null);
    return;
  }
  const { lamports, data, owner, executable = false } = account;
  const ownerBytes = keyBytes(owner);
  setAccount(bank, address, { lamports: BigInt(lamports), data, ownerBytes, executable, rentEpoch: MAX_RENT_EPOCH });
}
