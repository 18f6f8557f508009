import type { NormalTransaction } from '../ports/block.ts';

/** Owners of whose token accounts a balance changed, as numbers of the key table. */
export function changedOwners(tx: NormalTransaction): ReadonlySet<number> {
  const amounts = new Map<number, string>();
  const changed = new Set<number>();
  for (const { accountIndex, amount } of tx.preTokenBalances) amounts.set(accountIndex, amount);
  for (const { accountIndex, amount, ownerKey } of tx.postTokenBalances) {
    if ((amounts.get(accountIndex) ?? '0') !== amount) changed.add(ownerKey);
    amounts.delete(accountIndex);
  }
  // Balances without a later one: their accounts were closed.
  for (const { accountIndex, amount, ownerKey } of tx.preTokenBalances)
    if (amounts.has(accountIndex) && amount !== '0') changed.add(ownerKey);
  return changed;
}
