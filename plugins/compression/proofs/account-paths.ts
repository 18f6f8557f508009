import { notFound } from '../rpc/fields.ts';
import { type ByBytes, byBytes, distinctBytes } from '../rpc/records.ts';
import type { AccountRow, Db, TreeRow } from '../store/tables.ts';
import { isLeaf } from './fold.ts';
import { type PathPages, type PathReader, requireProvable } from './path-reader.ts';

type TreeColumns = Pick<
  TreeRow,
  'id' | 'key' | 'type' | 'queue' | 'height' | 'seq' | 'root' | 'status' | 'reason' | 'root_capacity' | 'next_tree'
>;

/** An account, its tree, and what comes after that tree. */
export interface ProvableAccount extends Pick<AccountRow, 'hash' | 'leaf_index' | 'queued' | 'spent'>, TreeColumns {
  readonly next_type: number | null;
  readonly next_queue: Uint8Array | null;
}

export interface AccountPath {
  readonly account: ProvableAccount;
  readonly pages: PathPages;
}

/**
 * Which hashes have a proof. `leaf`: those that are leaves of a tree. `account`: also those of accounts that wait in the output queue,
 * whose path is that of the empty leaf.
 */
export type Provable = 'leaf' | 'account';

/** Accounts with their trees, as far as there are any. Each hash is asked for once. */
export async function findProvable(db: Db, hashes: readonly Uint8Array[]): Promise<readonly ProvableAccount[]> {
  const distinct = distinctBytes(hashes);
  if (distinct.length === 0) return [];
  return await db
    .selectFrom('compression_accounts as a')
    .innerJoin('compression_trees as t', 't.id', 'a.tree')
    .leftJoin('compression_trees as n', 'n.key', 't.next_tree')
    .select(['a.hash', 'a.leaf_index', 'a.queued', 'a.spent'])
    .select(['t.id', 't.key', 't.type', 't.queue', 't.height', 't.seq', 't.root', 't.status', 't.reason'])
    .select(['t.root_capacity', 't.next_tree', 'n.type as next_type', 'n.queue as next_queue'])
    .where('a.hash', 'in', distinct)
    .execute();
}

/**
 * The paths of accounts, all of one state of the store. Errors: -32000 when one of the hashes has no proof, -32603 for a tree that may not
 * be proved; DamagedPage; those of the store.
 */
export async function pathsOfAccounts(
  db: Db,
  reader: PathReader,
  hashes: readonly Uint8Array[],
  provable: Provable,
): Promise<ByBytes<AccountPath>> {
  const accounts = await findProvable(db, hashes);
  const expected = distinctBytes(hashes).length;
  if (provable === 'account' && accounts.length < expected) throw notFound('Account not found');
  for (const account of accounts) requireProvable(account);
  const pages = await reader.paths(
    db,
    accounts.map((account) => ({ tree: account, leafIndex: account.leaf_index })),
  );
  const paths = accounts
    .map((account, i) => ({ account, pages: pages[i] ?? [] }))
    .filter(
      ({ account, pages }) =>
        (provable === 'account' && account.queued === 1) || isLeaf(pages, account.leaf_index, account.hash),
    );
  if (paths.length < expected) throw noLeaves(paths.length, expected);
  return byBytes(paths, ({ account }) => account.hash);
}

/** Both counts are of distinct hashes. */
export const noLeaves = (got: number, expected: number) =>
  notFound(`Leaf nodes not found for hashes. Got ${got} hashes. Expected ${expected}.`);
