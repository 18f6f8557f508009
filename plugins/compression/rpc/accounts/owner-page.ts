import type { Db } from '../../store/tables.ts';
import { findListed, LISTED_COLUMNS, type ListedAccount } from '../records/listed.ts';
import { after, unspent } from '../sql.ts';
import { type DataFilter, matches } from './filters.ts';

/** A place in the list of an owner's accounts. */
export interface OwnerPlace {
  readonly leaf_index: number;
  readonly hash: Uint8Array;
}

export interface OwnerPage {
  readonly owner: Uint8Array;
  readonly from: OwnerPlace | null;
  /** Rows to find. */
  readonly count: number;
  readonly filters: readonly DataFilter[];
}

/** Rows that are looked at by one query: filters that match little would otherwise hold up everything else. */
const WINDOW = 4_096;

/**
 * Unspent accounts of an owner in the order of (leaf index, hash). `breathe` is called between long queries and may throw to end the
 * search.
 */
export async function ownerPage(db: Db, page: OwnerPage, breathe: () => Promise<void>): Promise<ListedAccount[]> {
  const { filters, count } = page;
  if (filters.length === 0) return await places(db, page, page.from).select(LISTED_COLUMNS).limit(count).execute();
  const found = await search(db, page, breathe);
  const hashes = found.map(({ hash }) => hash);
  const rows = await findListed(db, hashes);
  return hashes.flatMap((hash) => rows.get(hash) ?? []);
}

async function search(db: Db, page: OwnerPage, breathe: () => Promise<void>): Promise<OwnerPlace[]> {
  const { filters, count } = page;
  const found: OwnerPlace[] = [];
  for (let from = page.from; ; await breathe()) {
    const window = places(db, page, from).select('data').limit(WINDOW).as('looked_at');
    let query = db.selectFrom(window).select(['leaf_index', 'hash']);
    for (const filter of filters) query = query.where(matches('data', filter));
    found.push(
      ...(await query
        .orderBy('leaf_index')
        .orderBy('hash')
        .limit(count - found.length)
        .execute()),
    );
    if (found.length >= count) return found;
    const end = await places(db, page, from)
      .offset(WINDOW - 1)
      .limit(1)
      .executeTakeFirst();
    if (end === undefined) return found;
    from = end;
  }
}

function places(db: Db, { owner }: OwnerPage, from: OwnerPlace | null) {
  const query = db
    .selectFrom('compression_accounts')
    .select(['leaf_index', 'hash'])
    .where('owner', '=', owner)
    .where(unspent('spent'))
    .orderBy('leaf_index')
    .orderBy('hash');
  return from === null ? query : query.where(after(['leaf_index', 'hash'], 'asc', [from.leaf_index, from.hash]));
}
