import { encode32 } from '../../../src/lib/base58.ts';
import { equalBytes } from '../../../src/lib/equal-bytes.ts';
import { TREE_TYPE } from '../../../src/solana/compression/events.ts';
import { invalid, notFound } from '../rpc/errors.ts';
import { byBytes, distinctBytes } from '../rpc/records/by-bytes.ts';
import type { Db, TreeRow } from '../store/tables.ts';
import { isAddressTree } from '../trees/leaf-hash.ts';
import { type LowElement, lowElements, pickLow } from './low-elements.ts';
import type { PathPages, PathReader } from './path-reader.ts';
import { requireProvable } from './refusal.ts';
import type { UnseenTree, UnseenTrees } from './unseen-trees.ts';

export interface AskedAddress {
  readonly address: Uint8Array;
  /** Key of an address tree. */
  readonly tree: Uint8Array;
}

/** The element below an address, whose next one is above it, with its path. */
export interface AddressPath extends LowElement {
  readonly tree: TreeRow;
  readonly pages: PathPages;
}

export interface AddressParts {
  readonly reader: PathReader;
  readonly unseen: UnseenTrees;
}

/**
 * Proofs that addresses are not taken, in the order asked for, all of one state of the store. Errors: -32602 for an address that is taken or
 * cannot be one, -32000 `Tree not found`, -32603 for a tree that may not be proved; DamagedPage; those of the store.
 */
export async function pathsOfAddresses(
  db: Db,
  parts: AddressParts,
  asked: readonly AskedAddress[],
): Promise<readonly AddressPath[]> {
  for (const { address } of asked) requireInRange(address);
  const keys = distinctBytes(asked.map(({ tree }) => tree));
  const seen = byBytes(
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
    const byAddress = byBytes(found, ({ address }) => address);
    for (const one of mine) {
      const path = byAddress.get(one.address);
      if (path !== undefined) paths.set(one, path);
    }
  }
  return asked.map((one) => paths.get(one)).filter((path) => path !== undefined);
}

async function inTree(db: Db, reader: PathReader, tree: TreeRow, addresses: readonly Uint8Array[]) {
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
  if (unseen === null) throw notFound('Tree not found');
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

/** An address that waits for its batch is taken already. */
async function requireNotQueued(db: Db, tree: TreeRow, addresses: readonly Uint8Array[]): Promise<void> {
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
