import type { WalletRow } from './tables.ts';
import { isJoined } from './wallets.ts';

/** A wallet of the index as operators see it. */
export function walletView(row: WalletRow) {
  return {
    address: row.address,
    state: stateOf(row),
    followed: row.is_followed === 1,
    pinned: row.is_pinned === 1,
    fromSlot: row.floor,
    toSlot: row.head,
    complete: row.is_complete === 1,
    prunedBelow: row.pruned_below,
    transactions: row.found,
    trouble: row.trouble,
  };
}

function stateOf(row: WalletRow): string {
  if (row.head === null) return 'waits to be indexed';
  if (row.trouble !== null) return `stands still: ${row.trouble}`;
  if (row.is_complete === 0 && row.pruned_below === null) return `is being indexed, down to slot ${row.floor}`;
  const past = row.is_complete === 1 ? 'complete' : `lacks what is below slot ${row.pruned_below}`;
  return isJoined(row) ? `${past}, current` : `${past}, up to slot ${row.head}`;
}
