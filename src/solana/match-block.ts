import type { ChainBlock } from '../ports/block.ts';
import type { AddressIndex } from './address-set.ts';

/** The matches of one transaction. Numbers are ascending and distinct. */
export interface TransactionMatch {
  /** Position in `block.transactions`. */
  readonly index: number;
  /** Owners that watch a static or loaded key. */
  readonly byKey: readonly number[];
  /** Owners that watch only the owner of a token balance. Empty unless owners were requested. */
  readonly byTokenOwner: readonly number[];
}

export interface MatchOptions {
  /** Whether to match owners of token balances. */
  readonly owners: boolean;
}

/**
 * The transactions of a block that touch a watched address, in block order. Each distinct key of the block is looked up once,
 * however many transactions contain it.
 */
export function matchBlock(block: ChainBlock, index: AddressIndex, { owners }: MatchOptions): TransactionMatch[] {
  if (index.size === 0) return [];
  const entries = entriesOf(block, index);
  if (entries === null) return [];
  const matches: TransactionMatch[] = [];
  for (const transaction of block.transactions) {
    const hasKey = hasEntry(transaction.keys, entries);
    const hasOwner = owners && hasEntry(transaction.tokenOwners, entries);
    if (!hasKey && !hasOwner) continue;
    const byKey = hasKey ? collect(transaction.keys, entries, index) : new Set<number>();
    const byTokenOwner = hasOwner ? collect(transaction.tokenOwners, entries, index) : new Set<number>();
    for (const owner of byKey) byTokenOwner.delete(owner);
    matches.push({ index: transaction.index, byKey: ascending(byKey), byTokenOwner: ascending(byTokenOwner) });
  }
  return matches;
}

/** The entry + 1 of each key id, 0 for an unwatched key; null when no key is watched. */
function entriesOf({ keys }: ChainBlock, index: AddressIndex): Uint32Array | null {
  const entries = new Uint32Array(keys.size);
  index.findAll(keys.words, keys.size, entries);
  return entries.some((entry) => entry !== 0) ? entries : null;
}

function hasEntry(ids: Uint32Array, entries: Uint32Array): boolean {
  for (let at = 0; at < ids.length; at++) if (entries[ids[at]!] !== 0) return true;
  return false;
}

function collect(ids: Uint32Array, entries: Uint32Array, index: AddressIndex): Set<number> {
  const owners = new Set<number>();
  for (const id of ids) {
    const entry = entries[id]! - 1;
    if (entry < 0) continue;
    const count = index.ownerCount(entry);
    for (let position = 0; position < count; position++) owners.add(index.ownerAt(entry, position));
  }
  return owners;
}

function ascending(owners: Set<number>): number[] {
  return [...owners].sort((left, right) => left - right);
}
