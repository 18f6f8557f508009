import { Type } from '@sinclair/typebox';
import { type RawBuilder, type SqlBool, sql } from 'kysely';
import { decode, encode32 } from '../../../src/lib/base58.ts';
import { JsonText, type Store } from '../../../src/plugin/plugin.ts';
import { keysQuery, packedRows, rawQuery } from '../../../src/ports/raw-query.ts';
import { orNull } from '../../../src/solana/schemas.ts';
import { type CompressionDb, readAtOneSlot, type ValueAtSlot } from '../store/tables.ts';
import {
  after,
  cursor,
  integer,
  invalid,
  key32,
  limit,
  listField,
  objectOf,
  optional,
  type ParamField,
  pageOf,
  pageText,
  unspent,
} from './fields.ts';
import { compressionMethod, type MethodFactory, requireIndexed, requireSlot, seenMethod } from './method.ts';
import { createGather } from './path-reader.ts';
import {
  accountSchema,
  type ByBytes,
  distinctBytes,
  type FullAccount,
  indexByBytes,
  pageSchema,
  type RecordRow,
  type RecordVersion,
  recordColumns,
  recordTexts,
  recordTrees,
  type SeenRows,
  seenRows,
  selectAccounts,
  u64,
  u64Json,
} from './records.ts';

/** getCompressedAccount and its V2. */
export const getCompressedAccount =
  (version: RecordVersion): MethodFactory =>
  ({ store, slots, completeness }) => {
    const find = createAccountFinder(store, version);
    return seenMethod(slots, {
      completeness,
      name: version === 1 ? 'getCompressedAccount' : 'getCompressedAccountV2',
      summary: 'The unspent compressed account with an address or a hash',
      fields: oneAccountFields(),
      result: orNull(accountSchema(version)),
      async run(params) {
        const { column, key } = whichOne(params);
        const { slot, value: row } = await find.one[column](key);
        return { slot, value: row === null ? null : new JsonText(recordTexts(version).account(row)) };
      },
    });
  };

/** getMultipleCompressedAccounts and its V2. */
export const getMultipleCompressedAccounts =
  (version: RecordVersion): MethodFactory =>
  ({ store, slots, completeness }) => {
    const find = createAccountFinder(store, version);
    return seenMethod(slots, {
      completeness,
      name: version === 1 ? 'getMultipleCompressedAccounts' : 'getMultipleCompressedAccountsV2',
      summary: 'Unspent compressed accounts by hash or by address, in the requested order; null for missing ones',
      fields: manyAccountsFields(),
      result: Type.Object({
        items: Type.Array(orNull(accountSchema(version)), { description: 'the accounts in the requested order' }),
      }),
      async run(params) {
        const { column, keys } = whichMany(params);
        const { slot, value: rows } = await find.many(column, keys);
        const texts = recordTexts(version);
        const items = keys.map((key) => {
          const row = rows.get(key);
          return row === undefined ? 'null' : texts.account(row);
        });
        return { slot, value: new JsonText(`{"items":[${items.join(',')}]}`) };
      },
    });
  };

type FindOne = (key: Uint8Array) => Promise<ValueAtSlot<RecordRow | null>>;

/** Unspent accounts by hash or address, with one statement. */
interface AccountFinder {
  /** Calls of the same turn share a statement. */
  readonly one: Readonly<Record<Column, FindOne>>;
  many(column: Column, keys: readonly Uint8Array[]): Promise<ValueAtSlot<ByBytes<RecordRow>>>;
}

const MAX_TOGETHER = 64;

function createAccountFinder(store: Store, version: RecordVersion): AccountFinder {
  const packed = packedRows<RecordRow>(store, recordColumns(version));
  const queryBy = (column: Column) =>
    keysQuery<SeenRows>(
      store,
      (isIn) =>
        `SELECT h.slot, (SELECT ${packed.sql()} FROM compression_accounts a ${recordTrees(version)} ` +
        `WHERE a.${column} ${isIn} AND a.spent = 0) AS rows FROM compression_head h`,
    );
  const queries = { hash: queryBy('hash'), address: queryBy('address') };

  async function many(column: Column, keys: readonly Uint8Array[]): Promise<ValueAtSlot<ByBytes<RecordRow>>> {
    const { slot, value } = seenRows(packed, await queries[column](store.read, distinctBytes(keys)));
    // The address is set, because rows were selected by it.
    return { slot, value: indexByBytes(value, (row) => row[column]!) };
  }

  const oneBy = (column: Column): FindOne =>
    createGather({
      most: MAX_TOGETHER,
      many: async (keys: readonly Uint8Array[]) => {
        const { slot, value } = await many(column, keys);
        return keys.map((key) => ({ slot, value: value.get(key) ?? null }));
      },
    });
  return { one: { hash: oneBy('hash'), address: oneBy('address') }, many };
}

const HASH_BYTES = 32;

/** getCompressedAccountsByOwner and its V2. */
export const getCompressedAccountsByOwner =
  (version: RecordVersion): MethodFactory =>
  ({ store, slots, clock, completeness }) => {
    const pages = createOwnerPages(store, version);
    return seenMethod(slots, {
      completeness,
      name: version === 1 ? 'getCompressedAccountsByOwner' : 'getCompressedAccountsByOwnerV2',
      summary: 'Unspent compressed accounts of an owner, by leaf index',
      fields: {
        owner: key32('program or wallet'),
        filters: filtersField(),
        dataSlice: optional(
          objectOf(
            { offset: offset(), length: integer({ most: 2 ** 31 - 1, description: 'bytes' }) },
            'part of the data that is shown',
          ),
        ),
        cursor: cursor(HASH_BYTES),
        limit: limit(),
      },
      result: pageSchema(accountSchema(version)),
      async run({ owner, filters, dataSlice, cursor: from, limit: most, minContextSlot }, call) {
        const page = { owner, filters, from, count: most + 1 };
        const breathe = async () => {
          await clock.sleep(0, call.signal);
        };
        const { slot, value: found } =
          from === null && filters.length === 0
            ? await pages.first(page)
            : await readAtOneSlot(store, (db, slot) => {
                requireIndexed(slot);
                requireSlot(slot, minContextSlot);
                return pages.later(db, page, breathe);
              });
        const { rows, cursor: next } = pageOf(found, most, ({ hash }) => encode32(hash));
        return { slot, value: pageText(rows.map(recordTexts(version, dataSlice).account), next) };
      },
    });
  };

/** The place of an account, also of a spent one. */
async function placeOf(db: CompressionDb, owner: Uint8Array, hash: Uint8Array): Promise<OwnerPlace> {
  const row = await db
    .selectFrom('compression_accounts')
    .select(['leaf_index', 'hash'])
    .where('hash', '=', hash)
    .where('owner', '=', owner)
    .executeTakeFirst();
  if (row === undefined) throw invalid('Invalid cursor');
  return row;
}

/** getCompressedBalance */
export const getCompressedBalance =
  (): MethodFactory =>
  ({ store, slots, completeness }) => {
    const find = createAccountFinder(store, 1);
    return seenMethod(slots, {
      completeness,
      name: 'getCompressedBalance',
      aliases: ['getCompressedAccountBalance'],
      summary: 'Lamports of the unspent compressed account with an address or a hash; 0 when it does not exist',
      fields: oneAccountFields(),
      result: u64('lamports'),
      async run(params) {
        const { column, key } = whichOne(params);
        const { slot, value: row } = await find.one[column](key);
        return { slot, value: row === null ? 0 : u64Json(row.lamports) };
      },
    });
  };

/** getCompressedBalanceByOwner */
export const getCompressedBalanceByOwner = (): MethodFactory =>
  compressionMethod({
    name: 'getCompressedBalanceByOwner',
    summary: 'Lamports in all unspent compressed accounts of an owner',
    fields: { owner: key32('program or wallet') },
    tolerant: true,
    result: u64('lamports'),
    async run({ owner }, { db }) {
      const row = await db
        .selectFrom('compression_balances')
        .select('lamports')
        .where('owner', '=', owner)
        .executeTakeFirst();
      return row === undefined ? 0 : u64Json(row.lamports);
    },
  });

/** A position in the list of an owner's accounts. */
interface OwnerPlace {
  readonly leaf_index: number;
  readonly hash: Uint8Array;
}

interface OwnerPage {
  readonly owner: Uint8Array;
  /** Hash of the last account of the page before. */
  readonly from: Uint8Array | null;
  /** Rows to find. */
  readonly count: number;
  readonly filters: readonly DataFilter[];
}

/** Unspent accounts of an owner in the order of (leaf index, hash). */
interface OwnerPages {
  /** A first page without filters: one statement. */
  first(page: OwnerPage): Promise<ValueAtSlot<readonly RecordRow[]>>;
  /**
   * Any page. `breathe` is called between long queries and may throw to end the search. Errors: -32602 for an unknown cursor.
   */
  later(db: CompressionDb, page: OwnerPage, breathe: () => Promise<void>): Promise<readonly RecordRow[]>;
}

function createOwnerPages(store: Store, version: RecordVersion): OwnerPages {
  const packed = packedRows<RecordRow>(store, recordColumns(version, 'page'));
  const select = (isLater: boolean) =>
    rawQuery<SeenRows>(store, (place) => {
      const own = `SELECT * FROM compression_accounts WHERE owner = ${place()} AND spent = 0`;
      const rest = isLater ? `${own} AND (leaf_index, hash) > (${place()}, ${place()})` : own;
      const page = `SELECT ${packed.sql()} FROM (${rest} ORDER BY leaf_index, hash LIMIT ${place()}) page ${recordTrees(version, 'page')}`;
      return `SELECT h.slot, (${page}) AS rows FROM compression_head h`;
    });
  const [selectFirst, selectLater] = [select(false), select(true)];
  const selectByHash = keysQuery<Omit<SeenRows, 'slot'>>(
    store,
    (isIn) =>
      `SELECT ${packed.sql()} AS rows FROM compression_accounts page ${recordTrees(version, 'page')} WHERE page.hash ${isIn}`,
  );
  const inOrder = ({ slot, value }: ValueAtSlot<RecordRow[]>) => ({ slot, value: value.sort(byPlace) });
  return {
    first: async ({ owner, count }) => inOrder(seenRows(packed, await selectFirst(store.read, [owner, count]))),
    async later(db, page, breathe) {
      const { owner, count, filters } = page;
      const from = page.from === null ? null : await placeOf(db, owner, page.from);
      if (filters.length === 0 && from !== null)
        return inOrder(seenRows(packed, await selectLater(db, [owner, from.leaf_index, from.hash, count]))).value;
      const hashes = (await search(db, page, from, breathe)).map(({ hash }) => hash);
      const [found] = await selectByHash(db, hashes);
      return packed.read(found?.rows ?? null).sort(byPlace);
    },
  };
}

const byPlace = (a: OwnerPlace, b: OwnerPlace): number => a.leaf_index - b.leaf_index || Buffer.compare(a.hash, b.hash);

/** Rows checked per query: filters with few matches would otherwise block everything else. */
const WINDOW = 4_096;

async function search(
  db: CompressionDb,
  { owner, filters, count }: OwnerPage,
  start: OwnerPlace | null,
  breathe: () => Promise<void>,
): Promise<OwnerPlace[]> {
  const found: OwnerPlace[] = [];
  for (let from = start; ; await breathe()) {
    const window = places(db, owner, from).select('data').limit(WINDOW).as('looked_at');
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
    const end = await places(db, owner, from)
      .offset(WINDOW - 1)
      .limit(1)
      .executeTakeFirst();
    if (end === undefined) return found;
    from = end;
  }
}

function places(db: CompressionDb, owner: Uint8Array, from: OwnerPlace | null) {
  const query = db
    .selectFrom('compression_accounts')
    .select(['leaf_index', 'hash'])
    .where('owner', '=', owner)
    .where(unspent('spent'))
    .orderBy('leaf_index')
    .orderBy('hash');
  return from === null ? query : query.where(after(['leaf_index', 'hash'], 'asc', [from.leaf_index, from.hash]));
}

/** Bytes that the data of an account must contain at an offset. */
interface DataFilter {
  readonly offset: number;
  readonly bytes: Uint8Array;
}

const MAX_FILTERS = 5;
const MAX_BYTES = 128;
const MAX_CHARACTERS = 175;
/** No data is longer; larger numbers do not fit the functions of the database. */
const MAX_OFFSET = 2 ** 31 - 2;

const pattern: ParamField<Uint8Array> = {
  schema: Type.String({
    maxLength: MAX_CHARACTERS,
    pattern: '^[1-9A-HJ-NP-Za-km-z]*$',
    description: `base58 of at most ${MAX_BYTES} bytes`,
    examples: ['3Mc6vR'],
  }),
  absent: null,
  read: (value, name) => {
    const bytes = typeof value === 'string' && value.length <= MAX_CHARACTERS ? decode(value) : null;
    if (bytes === null || bytes.length > MAX_BYTES)
      throw invalid(`field '${name}' must be a base58 string of at most ${MAX_BYTES} bytes`);
    return bytes;
  },
};

/** An offset in the data of accounts. */
const offset = () => integer({ most: MAX_OFFSET, description: 'bytes from the start of the data' });

/** `[{memcmp: {offset, bytes}}]`; null items are refused. */
function filtersField(): ParamField<readonly DataFilter[]> {
  const one = objectOf({
    memcmp: objectOf({ offset: offset(), bytes: pattern }, 'bytes that the data have at a place'),
  });
  return {
    schema: orNull(Type.Array(one.schema, { maxItems: MAX_FILTERS, description: 'all have to match' })),
    absent: { value: [] },
    read: (value, name) => {
      if (!Array.isArray(value)) throw invalid(`field '${name}' must be an array`);
      if (value.length > MAX_FILTERS)
        throw invalid(`Too many filters. The maximum number of filters allowed is ${MAX_FILTERS}`);
      return value.map((filter: unknown, at) => {
        if (filter === null) throw invalid('Filter instance cannot be null');
        return one.read(filter, `${name}[${at}]`).memcmp;
      });
    },
  };
}

/** Accounts without data match no filter. */
function matches(column: string, { offset: from, bytes }: DataFilter): RawBuilder<SqlBool> {
  return sql<SqlBool>`substr(${sql.ref(column)}, ${from + 1}, ${bytes.length}) = ${bytes}`;
}

/** Fields of methods about one account. */
export const oneAccountFields = () => ({
  address: optional(key32('address of the account')),
  hash: optional(key32('hash of the account')),
});

/** Fields of methods about many accounts. */
const manyAccountsFields = () => ({
  hashes: optional(listField(key32('hash'), { items: 'hashes', empty: 'No hashes provided' })),
  addresses: optional(listField(key32('address'), { items: 'addresses', empty: 'No addresses provided' })),
});

/** The address takes precedence when both are given. Errors: -32602 when neither is. */
export function whichOne(given: { readonly address: Uint8Array | null; readonly hash: Uint8Array | null }): {
  readonly column: Column;
  readonly key: Uint8Array;
} {
  if (given.address !== null) return { column: 'address', key: given.address };
  if (given.hash !== null) return { column: 'hash', key: given.hash };
  throw invalid('Either address or hash must be provided');
}

/** Errors: -32602 unless exactly one of the lists is given. */
function whichMany(given: {
  readonly hashes: readonly Uint8Array[] | null;
  readonly addresses: readonly Uint8Array[] | null;
}): { readonly column: Column; readonly keys: readonly Uint8Array[] } {
  const { hashes, addresses } = given;
  if (hashes !== null && addresses !== null) throw invalid('Cannot provide both hashes and addresses');
  if (hashes !== null) return { column: 'hash', keys: hashes };
  if (addresses !== null) return { column: 'address', keys: addresses };
  throw invalid('Either hashes or addresses must be provided');
}

type Column = 'hash' | 'address';

/** Accounts by hash, including spent ones. */
export async function findAccounts(db: CompressionDb, hashes: readonly Uint8Array[]): Promise<ByBytes<FullAccount>> {
  const rows =
    hashes.length === 0
      ? []
      : await selectAccounts(db)
          .where('a.hash', 'in', [...hashes])
          .execute();
  return indexByBytes(rows, ({ hash }) => hash);
}
