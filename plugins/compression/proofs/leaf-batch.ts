import { byBytes, distinctBytes } from '../rpc/records/by-bytes.ts';
import type { Db, TreeRow } from '../store/tables.ts';
import type { PathPages, PathReader } from './path-reader.ts';
import { requireProvable } from './refusal.ts';

export type FoundTree = Pick<
  TreeRow,
  'id' | 'key' | 'type' | 'queue' | 'height' | 'seq' | 'root' | 'status' | 'reason'
>;

/** An account, its tree, and the path that the tree has at its leaf. Nothing says yet that the leaf is the account. */
export interface FoundLeaf {
  readonly leafIndex: number;
  /** Waits in the output queue. */
  readonly queued: boolean;
  readonly tree: FoundTree;
  readonly pages: PathPages;
}

const TREE_COLUMNS = ['id', 'key', 'type', 'queue', 'height', 'seq', 'root', 'status', 'reason'] as const;

/**
 * What `LeafFinder.find` answers, for many hashes of one state of the store: three statements at most. Errors: those of a single hash;
 * they tell nothing of the others then.
 */
export async function findLeaves(
  db: Db,
  reader: PathReader,
  hashes: readonly Uint8Array[],
): Promise<readonly (FoundLeaf | null)[]> {
  const accounts = await db
    .selectFrom('compression_accounts')
    .select(['hash', 'tree', 'leaf_index', 'queued'])
    .where('hash', 'in', distinctBytes(hashes))
    .execute();
  if (accounts.length === 0) return hashes.map(() => null);
  const ids = [...new Set(accounts.map(({ tree }) => tree))];
  const rows = await db.selectFrom('compression_trees').select(TREE_COLUMNS).where('id', 'in', ids).execute();
  for (const row of rows) requireProvable(row);
  const trees = new Map<number, FoundTree>(rows.map((row) => [row.id, row]));
  const places = accounts.flatMap(({ hash, tree, leaf_index: leafIndex, queued }) => {
    const row = trees.get(tree);
    return row === undefined ? [] : [{ hash, tree: row, leafIndex, queued: queued === 1 }];
  });
  const pages = await reader.paths(db, places);
  const found = byBytes(
    places.map((place, i) => ({ ...place, pages: pages[i] ?? [] })),
    ({ hash }) => hash,
  );
  return hashes.map((hash) => found.get(hash) ?? null);
}
