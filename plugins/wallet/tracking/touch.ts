import type { ChainBlock, NormalTransaction } from '../../../src/ports/block.ts';
import { tokenChanges } from '../../../src/solana/movements/balance-changes.ts';
import type { OwnedAccount } from '../store/accounts.ts';
import { CHANGED, NAMED, TOUCHED } from '../store/flags.ts';

/** What a transaction has to do with a wallet. */
export interface Touch {
  readonly flags: number;
  /** Token accounts that the wallet owned before or after it. */
  readonly accounts: readonly OwnedAccount[];
}

/** Everything is told by the transaction itself: its keys, and the owners of its token balances. */
export function touchOf(tx: NormalTransaction, { keys }: Pick<ChainBlock, 'keys'>, wallet: Uint8Array): Touch {
  const id = keys.find(wallet);
  if (id < 0) return { flags: 0, accounts: [] };
  const accounts = new Map<number, OwnedAccount>();
  for (const { accountIndex, mintKey, ownerKey } of [...tx.preTokenBalances, ...tx.postTokenBalances]) {
    const account = tx.keys[accountIndex];
    if (ownerKey !== id || mintKey < 0 || account === undefined) continue;
    accounts.set(account, { account: keys.bytes(account).slice(), mint: keys.bytes(mintKey).slice() });
  }
  const hasChanged = accounts.size > 0 && tokenChanges(tx).some(({ owner }) => owner === id);
  return {
    flags: (tx.keys.includes(id) ? NAMED : 0) | (accounts.size > 0 ? TOUCHED : 0) | (hasChanged ? CHANGED : 0),
    accounts: [...accounts.values()],
  };
}
