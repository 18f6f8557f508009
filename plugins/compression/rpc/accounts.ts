import { Type } from '@sinclair/typebox';
import { type RawBuilder, type SqlBool, sql } from 'kysely';
import { decode, encode32 } from '../../../src/lib/base58.ts';
import type { Db } from '../store/tables.ts';
import {
  after,
  cursor,
  type Field,
  integer,
  invalid,
  key32,
  limit,
  listOf,
  objectOf,
  optional,
  pageOf,
  pageText,
  unspent,
} from './fields.ts';
import { compressionMethod, type MethodFactory } from './method.ts';
import {
  accountRecord,
  accountSchema,
  type ByBytes,
  byBytes,
  distinctBytes,
  type FullAccount,
  findListed,
  LISTED_COLUMNS,
  type ListedAccount,
  orNull,
  pageSchema,
  type RecordVersion,
  recordTexts,
  selectAccounts,
  u64,
  u64Json,
} from './records.ts';

/** getCompressedAccount and its V2. */
export const getCompressedAccount = (version: RecordVersion): MethodFactory =>
  compressionMethod({
    name: version === 1 ? 'getCompressedAccount' : 'getCompressedAccountV2',
    summary: 'The unspent compressed account with an address or a hash',
    fields: oneAccountFields(),
    result: orNull(accountSchema(version)),
    async run(params, { db }) {
      const { column, key } = whichOne(params);
      const row = (await findUnspent(db, column, [key])).get(key);
      return row === undefined ? null : accountRecord(row, version);
    },
  });

/** getMultipleCompressedAccounts and its V2. */
export const getMultipleCompressedAccounts = (version: RecordVersion): MethodFactory =>
  compressionMethod({
    name: version === 1 ? 'getMultipleCompressedAccounts' : 'getMultipleCompressedAccountsV2',
    summary: 'Unspent compressed accounts by hash or by address, in the requested order; null for missing ones',
    fields: manyAccountsFields(),
    result: Type.Object({
      items: Type.Array(orNull(accountSchema(version)), { description: 'the accounts in the requested order' }),
    }),
    async run(params, { db }) {
      const { column, keys } = whichMany(params);
      const rows = await findUnspent(db, column, distinctBytes(keys));
      return {
        items: keys.map((key) => {
          const row = rows.get(key);
          return row === undefined ? null : accountRecord(row, version);
        }),
      };
    },
  });

const HASH_BYTES = 32;

/** getCompressedAccountsByOwner and its V2. */
export const getCompressedAccountsByOwner =
  (version: RecordVersion): MethodFactory =>
  (parts) =>
    compressionMethod({
      name: version === 1 ? 'getCompressedAccountsByOwner' : 'getCompressedAccountsByOwnerV2',
      summary: 'Unspent compressed accounts of an owner, by leaf index',
      fields: {
        owner: key32('program or wallet'),
        filters: filtersField(),
        dataSlice: optional(
          objectOf({ offset: offset(), length: integer({ most: 2 ** 31 - 1, description: 'bytes' }) }),
        ),
        cursor: cursor(HASH_BYTES),
        limit: limit(),
      },
      result: pageSchema(accountSchema(version)),
      async run({ owner, filters, dataSlice, cursor: given, limit: most }, { db }, call) {
        const from = given === null ? null : await placeOf(db, owner, given);
        const breathe = async () => {
          await parts.clock.sleep(0, call.signal);
        };
        const found = await ownerPage(db, { owner, filters, from, count: most + 1 }, breathe);
        const page = pageOf(found, most, ({ hash }) => encode32(hash));
        const texts = await recordTexts(db, page.rows, version, dataSlice);
        return pageText(page.rows.map(texts.account), page.cursor);
      },
    })(parts);

/** The place of an account, also of a spent one. */
async function placeOf(db: Db, owner: Uint8Array, hash: Uint8Array): Promise<OwnerPlace> {
  const row = await db
    .selectFrom('compression_accounts')
    .select(['leaf_index', 'hash'])
    .where('hash', '=', hash)
    .where('owner', '=', owner)
    .executeTakeFirst();
  if (row === undefined) throw invalid('Invalid cursor');
  return row;
}

/** getCompressedBalance, which has a second name. */
export const getCompressedBalance = (name: 'getCompressedBalance' | 'getCompressedAccountBalance'): MethodFactory =>
  compressionMethod({
    name,
    summary: 'Lamports of the unspent compressed account with an address or a hash; 0 when it does not exist',
    fields: oneAccountFields(),
    result: u64('lamports'),
    async run(params, { db }) {
      const { column, key } = whichOne(params);
      const row = await db
        .selectFrom('compression_accounts')
        .select('lamports')
        .where(column, '=', key)
        .where(unspent('spent'))
        .executeTakeFirst();
      return row === undefined ? 0 : u64Json(row.lamports);
    },
  });

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
  readonly from: OwnerPlace | null;
  /** Rows to find. */
  readonly count: number;
  readonly filters: readonly DataFilter[];
}

/** Rows checked per query: filters with few matches would otherwise block everything else. */
const WINDOW = 4_096;

/**
 * Unspent accounts of an owner in the order of (leaf index, hash). `breathe` is called between long queries and may throw to end the
 * search.
 */
async function ownerPage(db: Db, page: OwnerPage, breathe: () => Promise<void>): Promise<ListedAccount[]> {
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

/** Bytes that the data of an account must contain at an offset. */
interface DataFilter {
  readonly offset: number;
  readonly bytes: Uint8Array;
}

const MOST_FILTERS = 5;
const MOST_BYTES = 128;
const MOST_CHARACTERS = 175;
/** No data is longer; larger numbers do not fit the functions of the database. */
const MOST_OFFSET = 2 ** 31 - 2;

const pattern: Field<Uint8Array> = {
  schema: Type.String({
    maxLength: MOST_CHARACTERS,
    pattern: '^[1-9A-HJ-NP-Za-km-z]*$',
    description: `base58 of at most ${MOST_BYTES} bytes`,
    examples: ['3Mc6vR'],
  }),
  absent: null,
  read: (value, name) => {
    const bytes = typeof value === 'string' && value.length <= MOST_CHARACTERS ? decode(value) : null;
    if (bytes === null || bytes.length > MOST_BYTES)
      throw invalid(`field '${name}' must be a base58 string of at most ${MOST_BYTES} bytes`);
    return bytes;
  },
};

/** An offset in the data of accounts. */
const offset = () => integer({ most: MOST_OFFSET, description: 'bytes from the start of the data' });

/** `[{memcmp: {offset, bytes}}]`; null items are refused. */
function filtersField(): Field<readonly DataFilter[]> {
  const one = objectOf({ memcmp: objectOf({ offset: offset(), bytes: pattern }) });
  return {
    schema: orNull(Type.Array(one.schema, { maxItems: MOST_FILTERS, description: 'all have to match' })),
    absent: { value: [] },
    read: (value, name) => {
      if (!Array.isArray(value)) throw invalid(`field '${name}' must be an array`);
      if (value.length > MOST_FILTERS)
        throw invalid(`Too many filters. The maximum number of filters allowed is ${MOST_FILTERS}`);
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
  hashes: optional(listOf(key32('hash'), { items: 'hashes', empty: 'No hashes provided' })),
  addresses: optional(listOf(key32('address'), { items: 'addresses', empty: 'No addresses provided' })),
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

/** Unspent accounts by hash or address. */
async function findUnspent(db: Db, column: Column, keys: readonly Uint8Array[]): Promise<ByBytes<FullAccount>> {
  const rows =
    keys.length === 0
      ? []
      : await selectAccounts(db)
          .where(`a.${column}`, 'in', [...keys])
          .where(unspent('a.spent'))
          .execute();
  // The address is set, because rows were selected by it.
  return byBytes(rows, (row) => row[column]!);
}

/** Accounts by hash, including spent ones. */
export async function findAccounts(db: Db, hashes: readonly Uint8Array[]): Promise<ByBytes<FullAccount>> {
  const rows =
    hashes.length === 0
      ? []
      : await selectAccounts(db)
          .where('a.hash', 'in', [...hashes])
          .execute();
  return byBytes(rows, ({ hash }) => hash);
}
