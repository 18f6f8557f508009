import { sql } from 'kysely';
import { pieces } from '../store/by-keys.ts';
import type { Db } from '../store/tables.ts';
import type { IndexedValue } from '../trees/leaf-hash.ts';

/** The leaf of an address tree with the largest value that is not above an address. */
export interface LowElement extends IndexedValue {
  readonly address: Uint8Array;
  readonly leaf_index: number;
}

/** Each address of a statement is a search of its own in the index. */
const ADDRESSES_PER_STATEMENT = 64;

/** One for each address, in their order. Errors: those of the store; a tree without its first leaf. */
export async function lowElements(
  db: Db,
  tree: number,
  addresses: readonly Uint8Array[],
): Promise<readonly LowElement[]> {
  const leaves: (IndexedValue & { readonly leaf_index: number })[] = [];
  for (const piece of pieces(addresses, ADDRESSES_PER_STATEMENT)) {
    const below = piece.map(
      (address) =>
        sql`(select value from compression_indexed_leaves where tree = ${tree} and value <= ${address} order by value desc limit 1)`,
    );
    const rows = await db
      .selectFrom('compression_indexed_leaves')
      .select(['leaf_index', 'value', 'next_index', 'next_value'])
      .where('tree', '=', tree)
      .where(sql<boolean>`value in (${sql.join(below)})`)
      .execute();
    leaves.push(...rows);
  }
  return pickLow(leaves, addresses);
}

/** Picks from leaves in any order. Errors: no leaf is below an address. */
export function pickLow(
  leaves: readonly (IndexedValue & { readonly leaf_index: number })[],
  addresses: readonly Uint8Array[],
): readonly LowElement[] {
  const ascending = leaves.toSorted((a, b) => Buffer.compare(a.value, b.value));
  return addresses.map((address) => {
    let [from, to] = [0, ascending.length];
    while (from < to) {
      const middle = (from + to) >> 1;
      const leaf = ascending[middle];
      if (leaf !== undefined && Buffer.compare(leaf.value, address) <= 0) from = middle + 1;
      else to = middle;
    }
    const leaf = ascending[from - 1];
    if (leaf === undefined) throw new Error('an address tree has no first leaf');
    return { ...leaf, address };
  });
}
