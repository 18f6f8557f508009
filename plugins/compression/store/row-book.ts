import { CompiledQuery } from 'kysely';
import type { StoreTx } from '../../../src/plugin/plugin.ts';
import type { SqlValue } from '../../../src/ports/store.ts';
import type { CompressedAccountRow, CompressionTables, TokenAccountRow, TreeRow } from './tables.ts';

/** The row before this transaction; null: it did not exist. */
export interface RowChange<Row> {
  readonly key: readonly SqlValue[];
  readonly before: Row | null;
  readonly now: Row | null;
}

/**
 * The rows of one table that a block reads and changes. They are read in batches, changed in memory, and written with few statements
 * at the end. Rows are never changed in place.
 */
export interface RowBook<Row> {
  /** Reads the rows with these keys that are not loaded yet. */
  load(keys: readonly (readonly SqlValue[])[]): Promise<void>;
  /** Adopts rows of another query; already loaded rows stay unchanged. */
  adopt(rows: readonly Row[]): void;
  /** Null when the row does not exist. Throws for a key that was not loaded. */
  get(...key: readonly SqlValue[]): Row | null;
  /** Like `get`, but undefined when the key was not loaded. */
  peek(...key: readonly SqlValue[]): Row | null | undefined;
  /** Adds or replaces. A row that was not loaded counts as new. */
  put(row: Row): void;
  remove(...key: readonly SqlValue[]): void;
  /** The loaded rows that exist, unordered. */
  rows(): Iterable<Row>;
  changes(): RowChange<Row>[];
  /** Keys of all requested rows. */
  keys(): Iterable<string>;
  flush(): Promise<void>;
}

interface RowEntry<Row> {
  readonly key: readonly SqlValue[];
  readonly before: Row | null;
  now: Row | null;
}

/** Name of a key; the columns of a table's key have fixed lengths, or are numbers. */
export function rowKeyText(key: readonly SqlValue[]): string {
  let text = '';
  for (const part of key) text += part instanceof Uint8Array ? latin1(part) : `${part}/`;
  return text;
}

function latin1(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('latin1');
}

export function createRowBook<Row extends object>(tx: StoreTx, shape: RowShape<Row>): RowBook<Row> {
  const entries = new Map<string, RowEntry<Row>>();
  const keyValues = (row: Row): readonly SqlValue[] => shape.key.map((column) => row[column] as SqlValue);

  function known(key: readonly SqlValue[]): RowEntry<Row> {
    const entry = entries.get(rowKeyText(key));
    if (entry === undefined) throw new Error(`a row of ${shape.name} was requested that was not loaded`);
    return entry;
  }
  const adopt = (rows: readonly Row[]) => {
    for (const row of rows) {
      const key = keyValues(row);
      const name = rowKeyText(key);
      if (!entries.has(name)) entries.set(name, { key, before: row, now: row });
    }
  };
  const book: RowBook<Row> = {
    async load(keys) {
      const missing = new Map<string, readonly SqlValue[]>();
      for (const key of keys) {
        const name = rowKeyText(key);
        if (!entries.has(name)) missing.set(name, key);
      }
      adopt(await withKeys<Row>(tx, shape, 'select *', [...missing.values()]));
      for (const [name, key] of missing) if (!entries.has(name)) entries.set(name, { key, before: null, now: null });
    },
    adopt,
    get: (...key) => known(key).now,
    peek: (...key) => entries.get(rowKeyText(key))?.now,
    put(row) {
      const key = keyValues(row);
      const name = rowKeyText(key);
      const entry = entries.get(name);
      if (entry === undefined) entries.set(name, { key, before: null, now: row });
      else entry.now = row;
    },
    remove(...key) {
      known(key).now = null;
    },
    *rows() {
      for (const { now } of entries.values()) if (now !== null) yield now;
    },
    changes: () => [...entries.values()].filter(({ before, now }) => before !== now),
    keys: () => entries.keys(),
    flush: () => writeChanges(tx, shape, book.changes()),
  };
  return book;
}

/** Deletes, updates and inserts, each in batches in the order of their keys. */
export async function writeChanges<Row extends object>(
  tx: StoreTx,
  shape: RowShape<Row>,
  changes: readonly Pick<RowChange<Row>, 'key' | 'before' | 'now'>[],
): Promise<void> {
  const columns = [...shape.key, ...shape.mutable, ...shape.fixed];
  const values = (row: Row) => columns.map((column) => row[column] as SqlValue);
  const gone = changes.flatMap(({ key, before, now }) => (before !== null && now === null ? [key] : []));
  await withKeys(tx, shape, 'delete', gone);
  const changed = changes.flatMap(({ before, now }) => (before !== null && now !== null ? [values(now)] : []));
  const update = { key: shape.key, set: shape.mutable };
  await tx.insertMany(shape.name, columns, inOrder(changed), update);
  const added = changes.flatMap(({ before, now }) => (before === null && now !== null ? [values(now)] : []));
  await tx.insertMany(shape.name, columns, inOrder(added), shape.blind === true ? 'ignore' : 'fail');
}

/** Sorted rows are inserted into an index several times faster. */
function inOrder(rows: readonly (readonly SqlValue[])[]): readonly (readonly SqlValue[])[] {
  return rows
    .map((row) => ({ row, name: sortKey(row) }))
    .sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0))
    .map(({ row }) => row);
}

function sortKey([first, second]: readonly SqlValue[]): string {
  const text = (part: SqlValue | undefined) =>
    part instanceof Uint8Array ? latin1(part) : typeof part === 'number' ? String(part).padStart(16, '0') : '';
  return text(first) + text(second);
}

/** How the rows of a table are found, written and restored. */
export interface RowShape<Row> {
  readonly name: keyof CompressionTables;
  readonly key: readonly (keyof Row & string)[];
  /** The other columns that may change once a row exists. */
  readonly mutable: readonly (keyof Row & string)[];
  /** Columns that never change. */
  readonly fixed: readonly (keyof Row & string)[];
  /** Rows are written without a read: an existing row stays. */
  readonly blind?: true;
}

const shape = <Name extends keyof CompressionTables>(
  name: Name,
  key: readonly (keyof CompressionTables[Name] & string)[],
  mutable: readonly (keyof CompressionTables[Name] & string)[],
  fixed: readonly (keyof CompressionTables[Name] & string)[] = [],
): RowShape<CompressionTables[Name]> => ({ name, key, mutable, fixed });

export const TREES: RowShape<TreeRow> = shape(
  'compression_trees',
  ['id'],
  [
    ...(['queue', 'height', 'root_capacity', 'next_tree', 'seq', 'root', 'next_index', 'status', 'reason'] as const),
    ...(['expected_root', 'computed_root', 'verified_seq', 'verified_slot'] as const),
  ],
  ['key', 'type'],
);

const blind = <Row>(table: RowShape<Row>): RowShape<Row> => ({ ...table, blind: true });

export const FOREIGN = shape('compression_foreign', ['key'], [], ['slot', 'reason']);

export const ACCOUNTS: RowShape<CompressedAccountRow> = shape(
  'compression_accounts',
  ['hash'],
  ['seq', 'spent', 'slot_spent', 'spent_by', 'queued', 'nullifier', 'nullifier_index', 'tx_hash', 'nullified'],
  [
    ...(['tree', 'leaf_index', 'owner', 'lamports', 'address', 'discriminator', 'data', 'data_hash'] as const),
    ...(['slot_created', 'created_by', 'onchain_pubkey'] as const),
  ],
);

export const TOKEN_ACCOUNT_ROWS: RowShape<TokenAccountRow> = shape(
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
export const ASSETS = shape(
  'compression_assets',
  ['id'],
  [
    ...(['tree', 'leaf_index', 'leaf', 'seq', 'slot', 'state', 'leaf_seq', 'version', 'owner', 'delegate'] as const),
    ...(['data_hash', 'creator_hash', 'collection_hash', 'asset_data_hash', 'flags'] as const),
  ],
);
export const METADATA = shape('compression_metadata', ['hash'], ['body']);
export const CHANGE_ROWS = blind(
  shape('compression_changes', ['tree', 'seq'], ['leaf_index', 'slot', 'signature', 'operation']),
);
export const ROOTS = shape('compression_roots', ['tree', 'seq'], ['root', 'slot']);
export const TRANSACTIONS = blind(shape('compression_transactions', ['slot', 'signature'], ['error']));
export const SUBJECTS = blind(shape('compression_subjects', ['kind', 'subject', 'slot', 'signature'], []));
export const RECENT = blind(shape('compression_recent', ['slot'], ['block_time', 'count', 'body']));
export const BLOCKS = blind(shape('compression_blocks', ['slot'], ['block_time']));
export const HEAD = shape('compression_head', ['id'], ['slot', 'block_time']);

/** All tables that a block changes and a revert restores, except pages. Stored undo rows contain indexes into this list: append only. */
export const UNDONE: readonly RowShape<never>[] = [
  TREES,
  FOREIGN,
  ACCOUNTS,
  TOKEN_ACCOUNT_ROWS,
  BALANCES,
  TOKEN_BALANCES,
  EARLY_SPENDS,
  INDEXED_LEAVES,
  ADDRESS_QUEUE,
  PENDING,
  ROOTS,
  TRANSACTIONS,
  SUBJECTS,
  RECENT,
  BLOCKS,
  HEAD,
  ASSETS,
  METADATA,
  CHANGE_ROWS,
] as unknown as readonly RowShape<never>[];

/** Rows per statement: few distinct statement texts, within the limits of the engines. */
export const KEYS_PER_STATEMENT = 500;

/** Runs a statement on the rows with these keys. */
async function withKeys<Row>(
  tx: StoreTx,
  shape: RowShape<Row>,
  action: 'select *' | 'delete',
  keys: readonly (readonly SqlValue[])[],
): Promise<Row[]> {
  const found: Row[] = [];
  const run = async (text: string, parameters: readonly unknown[]) => {
    const { rows } = await tx.db.executeQuery<Row>(CompiledQuery.raw(text, [...parameters]));
    for (const row of rows) found.push(row);
  };
  if (tx.dialect === 'sqlite')
    for (const piece of pieces(keys)) await run(listText(shape, action, piece.length), piece.flat());
  else
    for (let at = 0; at < keys.length; at += KEYS_PER_ARRAY) {
      const piece = keys.slice(at, at + KEYS_PER_ARRAY);
      const columns = shape.key.map((_, column) => piece.map((key) => key[column]));
      await run(arrayText(shape, action, piece[0] ?? []), columns);
    }
  return found;
}

/** Each text is built once. */
const texts = new Map<string, string>();

function cachedStatement(name: string, make: () => string): string {
  const known = texts.get(name);
  if (known !== undefined) return known;
  const made = make();
  texts.set(name, made);
  return made;
}

function listText({ name, key }: RowShape<never>, action: string, count: number): string {
  return cachedStatement(`${action} ${name} ${count}`, () => {
    const one = key.length === 1 ? '?' : `(${key.map(() => '?').join(',')})`;
    const list = Array.from({ length: count }, () => one).join(',');
    return key.length === 1
      ? `${action} from ${name} where ${key[0]} in (${list})`
      : `${action} from ${name} where (${key.join(',')}) in (values ${list})`;
  });
}

/** PostgreSQL takes one array per column of the key: one text for any number of keys. */
function arrayText({ name, key }: RowShape<never>, action: string, first: readonly SqlValue[]): string {
  return cachedStatement(`${action} ${name}`, () => {
    const arrays = key.map((_, at) => `$${at + 1}::${TYPES[typeof first[at]] ?? 'bytea'}[]`);
    return key.length === 1
      ? `${action} from ${name} where ${key[0]} = any(${arrays[0]})`
      : `${action} from ${name} where (${key.join(',')}) in (select * from unnest(${arrays.join(',')}))`;
  });
}

const TYPES: Readonly<Record<string, string>> = { number: 'bigint', string: 'text' };

/** Keys per statement where the text is the same for any number. */
const KEYS_PER_ARRAY = 4_096;

/** Pieces whose sizes below the maximum are powers of two, so that few texts are prepared. */
export function* pieces<T>(list: readonly T[], most = KEYS_PER_STATEMENT): Generator<readonly T[]> {
  let size = most;
  for (let at = 0; at < list.length; at += size) {
    if (list.length - at < size) size = 2 ** Math.floor(Math.log2(list.length - at));
    yield list.slice(at, at + size);
  }
}
