import { crc32 } from 'node:zlib';
import type { Db } from '../store/tables.ts';

/** Nodes of a page, then their CRC-32 (big-endian). */
const NODE_BYTES = 4032;
const STORED_BYTES = NODE_BYTES + 4;
/** Ids of a tree's pages lie in a range of so many. */
const PAGES_PER_TREE = 2 ** 37;
const IDS_PER_QUERY = 500;

/** The bytes of a stored page are not those that were written. */
export const DAMAGED = 'damaged';

export const pageId = (tree: number, key: number): number => tree * PAGES_PER_TREE + key;
export const treeOfPage = (id: number): number => Math.floor(id / PAGES_PER_TREE);

/** Smallest and largest id that a page of this tree can have. */
export const pageRange = (tree: number): { readonly from: number; readonly to: number } => ({
  from: pageId(tree, 0),
  to: pageId(tree + 1, 0) - 1,
});

/** The 4032 bytes of nodes with their check behind them, as they are stored. */
export function sealPage(nodes: Uint8Array): Buffer {
  const stored = Buffer.allocUnsafe(STORED_BYTES);
  stored.set(nodes.subarray(0, NODE_BYTES));
  stored.writeUInt32BE(crc32(stored.subarray(0, NODE_BYTES)), NODE_BYTES);
  return stored;
}

/** The nodes of a stored page as a view, or `damaged`. */
export function openPage(stored: Uint8Array): Uint8Array | typeof DAMAGED {
  if (stored.length !== STORED_BYTES) return DAMAGED;
  // No Buffer, whose `slice` would not copy.
  const nodes = new Uint8Array(stored.buffer, stored.byteOffset, NODE_BYTES);
  const view = new DataView(stored.buffer, stored.byteOffset, stored.byteLength);
  return crc32(nodes) === view.getUint32(NODE_BYTES) ? nodes : DAMAGED;
}

/**
 * Reads pages by their ids, 500 in one statement, and checks them. Pages that do not exist are left out: everything in them is empty.
 */
export async function readPages(db: Db, ids: readonly number[]): Promise<Map<number, Uint8Array | typeof DAMAGED>> {
  const pages = new Map<number, Uint8Array | typeof DAMAGED>();
  for (let at = 0; at < ids.length; at += IDS_PER_QUERY) {
    const rows = await db
      .selectFrom('compression_pages')
      .select(['id', 'bytes'])
      .where('id', 'in', ids.slice(at, at + IDS_PER_QUERY))
      .execute();
    for (const { id, bytes } of rows) pages.set(id, openPage(bytes));
  }
  return pages;
}
