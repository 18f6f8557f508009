import type { ChainBlock, NormalTransaction } from '../../../src/ports/block.ts';
import type { AddressIndex } from '../../../src/solana/address-set.ts';
import { matchBlock } from '../../../src/solana/match-block.ts';

const KEY_WORDS = 8;

/** The owners in the index of all accounts that successful transactions of a block may have written to. */
export function writtenOwners(block: ChainBlock, index: AddressIndex): ReadonlySet<number> {
  const owners = new Set<number>();
  for (const match of matchBlock(block, index, { owners: false })) {
    const transaction = block.transactions[match.index];
    if (transaction === undefined || transaction.error !== null) continue;
    for (const [position, id] of transaction.keys.entries()) {
      if (!isWritable(transaction, position)) continue;
      const entry = index.find(block.keys.words, id * KEY_WORDS);
      if (entry < 0) continue;
      const count = index.ownerCount(entry);
      for (let at = 0; at < count; at += 1) owners.add(index.ownerAt(entry, at));
    }
  }
  return owners;
}

/** Whether the message lets the account at a position of the merged keys be written to. */
function isWritable({ header, staticKeyCount, loadedWritableCount }: NormalTransaction, position: number): boolean {
  const { numRequiredSignatures, numReadonlySignedAccounts, numReadonlyUnsignedAccounts } = header;
  if (position >= staticKeyCount) return position < staticKeyCount + loadedWritableCount;
  if (position < numRequiredSignatures) return position < numRequiredSignatures - numReadonlySignedAccounts;
  return position < staticKeyCount - numReadonlyUnsignedAccounts;
}
