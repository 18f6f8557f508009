import type { AccountRow, Tables, TokenAccountRow, TreeRow } from './tables.ts';

/** How the rows of a table are found, written and restored. */
export interface TableShape<Row> {
  readonly name: keyof Tables;
  readonly key: readonly (keyof Row & string)[];
  /** The other columns that may change once a row exists. */
  readonly mutable: readonly (keyof Row & string)[];
  /** Those that never do. */
  readonly fixed: readonly (keyof Row & string)[];
  /** Rows are written without having been looked for: one that is there already stays. */
  readonly blind?: true;
}

const shape = <Name extends keyof Tables>(
  name: Name,
  key: readonly (keyof Tables[Name] & string)[],
  mutable: readonly (keyof Tables[Name] & string)[],
  fixed: readonly (keyof Tables[Name] & string)[] = [],
): TableShape<Tables[Name]> => ({ name, key, mutable, fixed });

export const TREES: TableShape<TreeRow> = shape(
  'compression_trees',
  ['id'],
  [
    ...(['queue', 'height', 'root_capacity', 'next_tree', 'seq', 'root', 'next_index', 'status', 'reason'] as const),
    ...(['expected_root', 'computed_root', 'verified_seq', 'verified_slot'] as const),
  ],
  ['key', 'type'],
);

const blind = <Row>(table: TableShape<Row>): TableShape<Row> => ({ ...table, blind: true });

export const FOREIGN = shape('compression_foreign', ['key'], [], ['slot', 'reason']);

export const ACCOUNTS: TableShape<AccountRow> = shape(
  'compression_accounts',
  ['hash'],
  ['seq', 'spent', 'slot_spent', 'spent_by', 'queued', 'nullifier', 'nullifier_index', 'tx_hash', 'nullified'],
  [
    ...(['tree', 'leaf_index', 'owner', 'lamports', 'address', 'discriminator', 'data', 'data_hash'] as const),
    ...(['slot_created', 'created_by', 'onchain_pubkey'] as const),
  ],
);

export const TOKEN_ACCOUNTS: TableShape<TokenAccountRow> = shape(
  'compression_token_accounts',
  ['hash'],
  ['spent'],
  ['owner', 'mint', 'delegate', 'state', 'amount', 'tlv', 'ata_owner'],
);

export const BALANCES = shape('compression_balances', ['owner'], ['lamports']);
export const TOKEN_BALANCES = shape('compression_token_balances', ['owner', 'mint'], ['amount']);
export const EARLY_SPENDS = shape('compression_early_spends', ['hash'], ['slot', 'body']);
export const INDEXED_LEAVES = shape(
  'compression_indexed_leaves',
  ['tree', 'leaf_index'],
  ['next_index', 'next_value', 'seq', 'value'],
);
export const ADDRESS_QUEUE = shape('compression_address_queue', ['tree', 'queue_index'], ['address']);
export const PENDING = shape('compression_pending', ['tree', 'seq', 'kind'], ['slot', 'body']);
export const ASSETS = shape('compression_assets', ['id'], ['tree', 'leaf_index', 'leaf', 'seq']);
export const ROOTS = shape('compression_roots', ['tree', 'seq'], ['root', 'slot']);
export const TRANSACTIONS = blind(shape('compression_transactions', ['slot', 'signature'], ['error']));
export const SUBJECTS = blind(shape('compression_subjects', ['kind', 'subject', 'slot', 'signature'], []));
export const RECENT = blind(shape('compression_recent', ['slot'], ['block_time', 'count', 'body']));
export const BLOCKS = blind(shape('compression_blocks', ['slot'], ['block_time']));
export const HEAD = shape('compression_head', ['id'], ['slot', 'block_time']);

/** Everything that a block changes and a roll-back restores, beside pages. The places in this list stand in stored undo rows. */
export const UNDONE: readonly TableShape<never>[] = [
  ...[TREES, FOREIGN, ACCOUNTS, TOKEN_ACCOUNTS, BALANCES, TOKEN_BALANCES, EARLY_SPENDS, INDEXED_LEAVES],
  ...[ADDRESS_QUEUE, PENDING, ROOTS, TRANSACTIONS, SUBJECTS, RECENT, BLOCKS, HEAD, ASSETS],
] as unknown as readonly TableShape<never>[];
