import type { AccountRow, Db } from '../../store/tables.ts';

/** An account with what is known of its tree. */
export interface FullAccount
  extends Pick<
    AccountRow,
    | 'hash'
    | 'leaf_index'
    | 'owner'
    | 'lamports'
    | 'address'
    | 'discriminator'
    | 'data'
    | 'data_hash'
    | 'seq'
    | 'slot_created'
    | 'queued'
    | 'nullifier'
    | 'tx_hash'
    | 'spent'
  > {
  readonly tree_key: Uint8Array;
  readonly tree_type: number;
  readonly tree_queue: Uint8Array | null;
  readonly next_tree: Uint8Array | null;
  /** Null also when there is a next tree that is not known. */
  readonly next_type: number | null;
  readonly next_queue: Uint8Array | null;
}

/** All accounts with their trees. */
export function selectAccounts(db: Db) {
  return db
    .selectFrom('compression_accounts as a')
    .innerJoin('compression_trees as t', 't.id', 'a.tree')
    .leftJoin('compression_trees as n', 'n.key', 't.next_tree')
    .select([
      'a.hash',
      'a.leaf_index',
      'a.owner',
      'a.lamports',
      'a.address',
      'a.discriminator',
      'a.data',
      'a.data_hash',
      'a.seq',
      'a.slot_created',
      'a.queued',
      'a.nullifier',
      'a.tx_hash',
      'a.spent',
      't.key as tree_key',
      't.type as tree_type',
      't.queue as tree_queue',
      't.next_tree',
      'n.type as next_type',
      'n.queue as next_queue',
    ]);
}
