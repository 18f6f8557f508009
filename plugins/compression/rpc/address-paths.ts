import { sql } from 'kysely';
import { encode32 } from '../../../src/lib/base58.ts';
import { equalBytes } from '../../../src/lib/bytes.ts';
import { TREE_TYPE } from '../../../src/solana/compression/events.ts';
import { pathPages } from '../../../src/solana/merkle/path.ts';
import { pieces } from '../store/row-book.ts';
import type { CompressionDb, TreeRow } from '../store/tables.ts';
import { emptyRoot, freshTree, type Hashing, type IndexedValue, isAddressTree } from '../trees/hashing.ts';
import type { PathPages } from '../trees/page-book.ts';
import type { NewTree } from '../trees/tree-book.ts';
import { invalid, recordNotFound } from './fields.ts';
import { type PathReader, requireProvable } from './path-reader.ts';
import { type ByBytes, distinctBytes, indexByBytes } from './records.ts';

export interface AskedAddress {
  readonly address: Uint8Array;
  /** Key of an address tree. */
  readonly tree: Uint8Array;
}

/** The element below an address, whose successor is above it, with its path. */
export interface AddressPath extends LowElement {
  readonly tree: TreeRow;
  readonly pages: PathPages;
}

interface AddressParts {
  readonly reader: PathReader;
  readonly unseen: UnseenTrees;
}

/**
 * Proofs that addresses are unused, in the requested order, all in one state of the store. Errors: -32602 for an address that is used or
 * out of range, -32000 `Tree not found`, -32603 for a tree whose proofs are withheld; DamagedPage; those of the store.
 */
export async function pathsOfAddresses(
  db: CompressionDb,
  parts: AddressParts,
  asked: readonly AskedAddress[],
): Promise<readonly AddressPath[]> {
  for (const { address } of asked) requireInRange(address);
  const keys = distinctBytes(asked.map(({ tree }) => tree));
  const seen = indexByBytes(
    keys.length === 0 ? [] : await db.selectFrom('compression_trees').selectAll().where('key', 'in', keys).execute(),
    ({ key }) => key,
  );
  const paths = new Map<AskedAddress, AddressPath>();
  for (const key of keys) {
    const mine = asked.filter(({ tree }) => equalBytes(tree, key));
    const addresses = distinctBytes(mine.map(({ address }) => address));
    const tree = seen.get(key);
    const found =
      tree === undefined
        ? inUnseenTree(parts.unseen.find(key), addresses)
        : await inTree(db, parts.reader, tree, addresses);
    const byAddress = indexByBytes(found, ({ address }) => address);
    for (const one of mine) {
      const path = byAddress.get(one.address);
      if (path !== undefined) paths.set(one, path);
    }
  }
  return asked.map((one) => paths.get(one)).filter((path) => path !== undefined);
}

async function inTree(db: CompressionDb, reader: PathReader, tree: TreeRow, addresses: readonly Uint8Array[]) {
  requireAddressTree(tree);
  requireProvable(tree);
  await requireNotQueued(db, tree, addresses);
  const elements = requireFree(await lowElements(db, tree.id, addresses));
  const paths = await reader.paths(
    db,
    elements.map(({ leaf_index }) => ({ tree, leafIndex: leaf_index })),
  );
  return elements.map((element, i) => ({ ...element, tree, pages: paths[i] ?? [] }));
}

function inUnseenTree(unseen: UnseenTree | null, addresses: readonly Uint8Array[]): readonly AddressPath[] {
  if (unseen === null) throw recordNotFound('Tree not found');
  const { tree, values, path } = unseen;
  requireAddressTree(tree);
  const leaves = values.map((value, leaf_index) => ({ ...value, leaf_index }));
  return pickLow(leaves, addresses).map((element) => ({ ...element, tree, pages: path(element.leaf_index) }));
}

/** Between the first leaf of every address tree, 0, and the largest value, 2^248 - 1. */
function requireInRange(address: Uint8Array): void {
  const rest = address.subarray(1);
  const isInside = address[0] === 0 && rest.some((byte) => byte !== 0) && rest.some((byte) => byte !== 0xff);
  if (!isInside) throw invalid(`Address ${encode32(address)} is out of the range of address trees`);
}

function requireAddressTree({ key, type }: TreeRow): void {
  if (!isAddressTree(type)) throw invalid(`Tree ${encode32(key)} is not an address tree`);
}

/** A queued address counts as used. */
async function requireNotQueued(db: CompressionDb, tree: TreeRow, addresses: readonly Uint8Array[]): Promise<void> {
  if (tree.type !== TREE_TYPE.addressV2) return;
  const queued = await db
    .selectFrom('compression_address_queue')
    .select('address')
    .where('tree', '=', tree.id)
    .where('address', 'in', [...addresses])
    .limit(1)
    .executeTakeFirst();
  if (queued !== undefined) throw taken(queued.address);
}

function requireFree(elements: readonly LowElement[]): readonly LowElement[] {
  const same = elements.find(({ value, address }) => equalBytes(value, address));
  if (same !== undefined) throw taken(same.address);
  return elements;
}

const taken = (address: Uint8Array) => invalid(`Address ${encode32(address)} already exists`);

/** The leaf of an address tree with the largest value that is not above an address. */
export interface LowElement extends IndexedValue {
  readonly address: Uint8Array;
  readonly leaf_index: number;
}

/** Each address of a statement is a separate index search. */
const ADDRESSES_PER_STATEMENT = 64;

/** One for each address, in their order. Errors: those of the store; a tree without its first leaf. */
export async function lowElements(
  db: CompressionDb,
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

/** Picks from unordered leaves. Errors: no leaf is below an address. */
function pickLow(
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

/** A well-known tree that no block has named yet: it has the initial content of such trees. */
export interface UnseenTree {
  readonly tree: TreeRow;
  readonly values: readonly IndexedValue[];
  path(leafIndex: number): PathPages;
}

export interface UnseenTrees {
  /** Null for a key that is not a known tree. */
  find(key: Uint8Array): UnseenTree | null;
}

/** Not used by any row. */
const NO_ID = -1;

export function createUnseenTrees(known: readonly NewTree[], hashing: Hashing): UnseenTrees {
  const trees: ByBytes<NewTree> = indexByBytes(known, ({ key }) => key);
  const made = new Map<NewTree, UnseenTree>();
  return {
    find(key) {
      const tree = trees.get(key);
      if (tree === undefined) return null;
      const unseen = made.get(tree) ?? grow(tree, hashing);
      made.set(tree, unseen);
      return unseen;
    },
  };
}

function grow({ key, type, queue, height, rootCapacity, nextTree }: NewTree, hashing: Hashing): UnseenTree {
  const { seq, nextIndex, values, leaves } = freshTree(hashing, type);
  const [updated] = hashing.update([{ height, page: () => null, leaves }]);
  return {
    tree: {
      id: NO_ID,
      key,
      type,
      queue,
      height,
      root_capacity: rootCapacity,
      next_tree: nextTree,
      seq,
      root: updated?.root ?? emptyRoot(hashing, height),
      next_index: nextIndex,
      status: 'unverified',
      reason: null,
      expected_root: null,
      computed_root: null,
      verified_seq: null,
      verified_slot: null,
    },
    values,
    path: (leafIndex) => pathPages(height, leafIndex).map((page) => updated?.pages.get(page) ?? null),
  };
}
