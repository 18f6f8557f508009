import { crc32 } from 'node:zlib';
import { equalBytes } from '../../../src/lib/bytes.ts';
import type { StoreTx } from '../../../src/plugin/plugin.ts';
import { eachSibling, GROUP_WIDTH, HASH_BYTES, nodeOffset, pathPages } from '../../../src/solana/merkle/path.ts';
import type { Poseidon } from '../../../src/solana/merkle/poseidon.ts';
import type { LeafChange, UpdatedTree } from '../../../src/solana/merkle/update-trees.ts';
import { pieces } from '../store/row-book.ts';
import type { CompressionDb, TreeRow } from '../store/tables.ts';

/** Previous nodes of a page; `isNew`: the page did not exist. */
export interface PageUndo {
  readonly id: number;
  readonly isNew: boolean;
  readonly nodes: readonly (readonly [offset: number, hash: Uint8Array])[];
}

/** Pages that a block reads and changes. */
export interface PageBook {
  /** Reads the pages above these leaves. Returns the trees (ids) of damaged pages. */
  load(
    trees: readonly { readonly id: number; readonly height: number; readonly leaves: readonly LeafChange[] }[],
  ): Promise<ReadonlySet<number>>;
  /** Nodes of a loaded page; null when it does not exist. */
  page(tree: number, key: number): Uint8Array | null;
  /** Takes over the result of an update. */
  accept(tree: number, updated: UpdatedTree): void;
  /** Previous contents of changed pages. */
  undo(): readonly PageUndo[];
  /** Ids of the pages that were read. */
  ids(): Iterable<number>;
  flush(): Promise<void>;
}

interface OpenPage {
  /** Null when missing. */
  nodes: Uint8Array | null;
  readonly isNew: boolean;
  readonly before: Map<number, Uint8Array>;
}

export function createPageBook(tx: StoreTx): PageBook {
  const pages = new Map<number, OpenPage>();
  const damaged = new Set<number>();
  const changed = () => [...pages].filter(([, { before }]) => before.size > 0);

  return {
    async load(trees) {
      const ids = new Set<number>();
      for (const { id, height, leaves } of trees)
        for (const { index } of leaves)
          for (const key of pathPages(height, index)) if (!pages.has(pageId(id, key))) ids.add(pageId(id, key));
      const found = await readTreePages(tx.db as CompressionDb, [...ids]);
      for (const id of ids) {
        const nodes = found.get(id) ?? null;
        if (nodes === DAMAGED) damaged.add(treeOfPage(id));
        else pages.set(id, { nodes, isNew: nodes === null, before: new Map() });
      }
      return damaged;
    },
    page(tree, key) {
      const page = pages.get(pageId(tree, key));
      if (page === undefined) throw new Error('a page was requested that was not loaded');
      return page.nodes;
    },
    accept(tree, { pages: updated, before }) {
      for (const { page, offset, hash } of before) {
        const open = pages.get(pageId(tree, page));
        if (open !== undefined && !open.before.has(offset)) open.before.set(offset, hash);
      }
      for (const [key, nodes] of updated) {
        const open = pages.get(pageId(tree, key));
        if (open === undefined) throw new Error('a page was changed that was not loaded');
        open.nodes = nodes;
      }
    },
    undo: () => changed().map(([id, { isNew, before }]) => ({ id, isNew, nodes: isNew ? [] : [...before] })),
    ids: () => pages.keys(),
    flush: () =>
      writePages(
        tx,
        changed().flatMap(([id, { nodes, isNew }]) => (nodes === null ? [] : [{ id, isNew, nodes }])),
      ),
  };
}

/** Writes whole pages, sorted, many per statement. */
export async function writePages(
  tx: StoreTx,
  pages: readonly { readonly id: number; readonly nodes: Uint8Array }[],
): Promise<void> {
  const rows = pages.map(({ id, nodes }) => ({ id, bytes: sealPage(nodes) })).sort((a, b) => a.id - b.id);
  const values = rows.map(({ id, bytes }) => [id, bytes]);
  await tx.insertMany('compression_pages', ['id', 'bytes'], values, { key: ['id'], set: ['bytes'] });
}

/**
 * Restores previous nodes. Returns the trees of damaged pages, which cannot be restored.
 */
export async function restorePages(tx: StoreTx, undo: readonly PageUndo[]): Promise<ReadonlySet<number>> {
  const damaged = new Set<number>();
  const gone = undo.flatMap(({ id, isNew }) => (isNew ? [id] : []));
  for (const piece of pieces(gone))
    await (tx.db as CompressionDb).deleteFrom('compression_pages').where('id', 'in', piece).execute();
  const patched = undo.filter(({ isNew }) => !isNew);
  const found = await readTreePages(
    tx.db as CompressionDb,
    patched.map(({ id }) => id),
  );
  const restored: { readonly id: number; readonly nodes: Uint8Array }[] = [];
  for (const { id, nodes } of patched) {
    const page = found.get(id);
    if (page === undefined || page === DAMAGED) {
      damaged.add(treeOfPage(id));
      continue;
    }
    const bytes = page.slice();
    for (const [offset, hash] of nodes) bytes.set(hash, offset);
    restored.push({ id, nodes: bytes });
  }
  await writePages(tx, restored);
  return damaged;
}

/** Nodes of a page, then their CRC-32 (big-endian). */
const NODE_BYTES = 4032;
const STORED_BYTES = NODE_BYTES + 4;
/** Size of the id range of a tree's pages. */
const PAGES_PER_TREE = 2 ** 37;
const IDS_PER_QUERY = 500;

/** The stored bytes differ from those that were written. */
export const DAMAGED = 'damaged';

export const pageId = (tree: number, key: number): number => tree * PAGES_PER_TREE + key;
const treeOfPage = (id: number): number => Math.floor(id / PAGES_PER_TREE);

/** Smallest and largest possible page id of this tree. */
export const pageRange = (tree: number): { readonly from: number; readonly to: number } => ({
  from: pageId(tree, 0),
  to: pageId(tree + 1, 0) - 1,
});

/** The 4032 bytes of nodes followed by their CRC-32, as stored. */
export function sealPage(nodes: Uint8Array): Buffer {
  const stored = Buffer.allocUnsafe(STORED_BYTES);
  stored.set(nodes.subarray(0, NODE_BYTES));
  stored.writeUInt32BE(crc32(stored.subarray(0, NODE_BYTES)), NODE_BYTES);
  return stored;
}

/** The nodes of a stored page as a view, or `damaged`. */
export function openPage(stored: Uint8Array): Uint8Array | typeof DAMAGED {
  if (stored.length !== STORED_BYTES) return DAMAGED;
  // Not a Buffer, whose `slice` would not copy.
  const nodes = new Uint8Array(stored.buffer, stored.byteOffset, NODE_BYTES);
  const view = new DataView(stored.buffer, stored.byteOffset, stored.byteLength);
  return crc32(nodes) === view.getUint32(NODE_BYTES) ? nodes : DAMAGED;
}

/**
 * Reads and checks pages by id, 500 per statement. Omits pages that do not exist: they are empty.
 */
export async function readTreePages(
  db: CompressionDb,
  ids: readonly number[],
): Promise<Map<number, Uint8Array | typeof DAMAGED>> {
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

/** The state of a tree that its paths depend on. */
export type PathTree = Pick<TreeRow, 'id' | 'key' | 'height' | 'seq' | 'root'>;

export interface LeafPlace {
  readonly tree: PathTree;
  readonly leafIndex: number;
}

/** Pages from a leaf to the root, bottom-up. */
export type PathPages = readonly PageNodes[];

/** Nodes of a page; null when the page is empty and not stored. */
export type PageNodes = Uint8Array | null;

/** Hashes a path from its leaf up and checks that it ends at the root of its tree. */
export function leadsToRoot(
  poseidon: Pick<Poseidon, 'hashPairs'>,
  zeros: Uint8Array,
  { tree, leafIndex }: LeafPlace,
  pages: PathPages,
): boolean {
  const pair = new Uint8Array(2 * HASH_BYTES);
  // A copy: `slice` of a Buffer would be a view of the page.
  const node = Uint8Array.from(leafOf(pages, leafIndex));
  let index = leafIndex;
  eachSibling(tree.height, leafIndex, pages, zeros, (bytes, offset) => {
    const isRight = index % 2 === 1;
    pair.set(node, isRight ? HASH_BYTES : 0);
    pair.set(bytes.subarray(offset, offset + HASH_BYTES), isRight ? 0 : HASH_BYTES);
    poseidon.hashPairs(pair, 0, node, 0, 1);
    index = Math.floor(index / 2);
  });
  return equalBytes(node, tree.root);
}

/** Whether the leaf of this path equals the hash, which is not zero. */
export function isLeaf([page]: PathPages, leafIndex: number, hash: Uint8Array): boolean {
  if (page == null) return false;
  const offset = nodeOffset(0, leafIndex % GROUP_WIDTH);
  return equalBytes(page.subarray(offset, offset + HASH_BYTES), hash);
}

/** The leaf of a path. */
export function leafOf([page]: PathPages, leafIndex: number): Uint8Array {
  const offset = nodeOffset(0, leafIndex % GROUP_WIDTH);
  return page == null ? new Uint8Array(HASH_BYTES) : page.subarray(offset, offset + HASH_BYTES);
}
