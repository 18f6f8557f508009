import { TREE_TYPE } from '../../../src/solana/compression/events.ts';
import type { Db, TreeRow } from '../store/tables.ts';

/** A queue of a V2 tree. */
export type QueueKind = 'outputs' | 'nullifiers' | 'addresses';

/** The queues of a tree and the accounts that hold them. */
export function queuesOf({ type, key, queue }: TreeRow): readonly { kind: QueueKind; account: Uint8Array }[] {
  if (type === TREE_TYPE.addressV2) return [{ kind: 'addresses', account: key }];
  if (type !== TREE_TYPE.stateV2) return [];
  return [
    { kind: 'nullifiers', account: key },
    ...(queue === null ? [] : [{ kind: 'outputs', account: queue } as const]),
  ];
}

/**
 * The values that were put into a queue from one place on, in their order. Less than `size` where rows are missing, and where addresses
 * have left the queue. Errors: those of the store.
 */
export async function queueValues(
  db: Db,
  tree: number,
  kind: QueueKind,
  from: number,
  size: number,
): Promise<Uint8Array[]> {
  if (kind === 'addresses') {
    const rows = await db
      .selectFrom('compression_address_queue')
      .select('address')
      .where('tree', '=', tree)
      .where('queue_index', '>=', from)
      .where('queue_index', '<', from + size)
      .orderBy('queue_index')
      .execute();
    return rows.map(({ address }) => address);
  }
  const place = kind === 'outputs' ? 'leaf_index' : 'nullifier_index';
  const rows = await db
    .selectFrom('compression_accounts')
    .select(['hash', 'nullifier'])
    .where('tree', '=', tree)
    .where(place, '>=', from)
    .where(place, '<', from + size)
    .orderBy(place)
    .execute();
  return rows.flatMap(({ hash, nullifier }) => (kind === 'outputs' ? [hash] : nullifier === null ? [] : [nullifier]));
}

/** How many places of a queue the rows know of: the newest one and one. Errors: those of the store. */
export async function queueEnd(db: Db, tree: TreeRow, kind: QueueKind): Promise<number> {
  if (kind === 'addresses') {
    const queued = await db
      .selectFrom('compression_address_queue')
      .select((is) => is.fn.max('queue_index').as('last'))
      .where('tree', '=', tree.id)
      .executeTakeFirst();
    return queued?.last == null ? Math.max(0, tree.next_index - 1) : Number(queued.last) + 1;
  }
  const place = kind === 'outputs' ? 'leaf_index' : 'nullifier_index';
  const row = await db
    .selectFrom('compression_accounts')
    .select(place)
    .where('tree', '=', tree.id)
    .where(place, 'is not', null)
    .orderBy(place, 'desc')
    .limit(1)
    .executeTakeFirst();
  const last = (row as { readonly leaf_index?: number; readonly nullifier_index?: number } | undefined)?.[place];
  return last === undefined ? 0 : last + 1;
}
