import { Type } from '@sinclair/typebox';
import { encode, encode32 } from '../../../src/lib/base58.ts';
import type { Store } from '../../../src/plugin/plugin.ts';
import { packedRows, type RawQuery, rawQuery } from '../../../src/ports/raw-query.ts';
import { type CompressionDb, U64_MOST, u64Bytes, u64Of, type ValueAtSlot } from '../store/tables.ts';
import { oneAccountFields, whichOne } from './accounts.ts';
import { after, cursor, key32, limit, optional, pageOf, pageText, unspent, withheld } from './fields.ts';
import { compressionMethod, type MethodFactory, seenMethod } from './method.ts';
import {
  key,
  numberJson,
  pageSchema,
  type RecordedTokens,
  type RecordRow,
  type RecordVersion,
  recordColumns,
  recordTexts,
  recordTrees,
  type SeenRows,
  seenRows,
  tokenAccountSchema,
  u64,
  u64Json,
} from './records.ts';

const KEY_BYTES = 32;

type Who = 'owner' | 'delegate';

/** getCompressedTokenAccountsByOwner and …ByDelegate, and their V2. */
export function getCompressedTokenAccounts(who: Who, version: RecordVersion): MethodFactory {
  const name = who === 'owner' ? 'getCompressedTokenAccountsByOwner' : 'getCompressedTokenAccountsByDelegate';
  return ({ store, slots, completeness }) => {
    const pageOfTokens = createTokenPages(store, who, version);
    return seenMethod(slots, {
      completeness,
      name: version === 1 ? name : `${name}V2`,
      summary: `Unspent compressed token accounts of ${who === 'owner' ? 'an owner' : 'a delegate'}, by mint`,
      fields: {
        ...(who === 'owner' ? { owner: key32('owner of the tokens') } : { delegate: key32('delegate of the tokens') }),
        mint: optional(key32('only this mint')),
        cursor: cursor(2 * KEY_BYTES),
        limit: limit(),
      },
      result: pageSchema(tokenAccountSchema(version)),
      async run(params) {
        const { mint, cursor: from, limit: most } = params;
        const key = 'owner' in params ? params.owner : params.delegate;
        const { slot, value: found } = await pageOfTokens({ key, mint, from, count: most + 1 });
        const page = pageOf(found, most, (last) => encode(Buffer.concat([last.mint, last.hash])));
        const texts = recordTexts(version);
        const items = page.rows.map((row) => {
          const tokens = { ...row, owner: row.token_owner };
          return `{"account":${texts.account(row)},"tokenData":${texts.tokens(tokens)}}`;
        });
        return { slot, value: pageText(items, page.cursor) };
      },
    });
  };
}

interface TokenPage {
  readonly key: Uint8Array;
  readonly mint: Uint8Array | null;
  /** Mint and hash of the last row of the page before. */
  readonly from: Uint8Array | null;
  readonly count: number;
}

interface TokenRow extends RecordRow, Omit<RecordedTokens, 'owner'> {
  readonly token_owner: Uint8Array;
}

/** Token accounts with their accounts, by mint and hash: one statement for each form of the question. */
function createTokenPages(store: Store, who: Who, version: RecordVersion) {
  const { numbers, bytes } = recordColumns(version);
  const packed = packedRows<TokenRow>(store, {
    numbers: { ...numbers, state: 'page.state' },
    bytes: {
      ...bytes,
      mint: 'page.mint',
      token_owner: 'page.owner',
      amount: 'page.amount',
      delegate: 'page.delegate',
      tlv: 'page.tlv',
    },
  });
  const forms = new Map<string, RawQuery<SeenRows>>();

  const queryWhere = (conditions: readonly string[]): RawQuery<SeenRows> => {
    const form = conditions.join(' ');
    const query =
      forms.get(form) ??
      rawQuery<SeenRows>(store, (place) => {
        const where = [`${who} = ?`, 'spent = 0', ...conditions].join(' AND ').replace(/\?/g, place);
        const page = `SELECT * FROM compression_token_accounts WHERE ${where} ORDER BY mint, hash LIMIT ${place()}`;
        const rows = `FROM (${page}) page JOIN compression_accounts a ON a.hash = page.hash ${recordTrees(version)}`;
        return `SELECT h.slot, (SELECT ${packed.sql()} ${rows}) AS rows FROM compression_head h`;
      });
    forms.set(form, query);
    return query;
  };

  return async ({ key, mint, from, count }: TokenPage): Promise<ValueAtSlot<readonly TokenRow[]>> => {
    const last = from === null ? null : { mint: from.subarray(0, KEY_BYTES), hash: from.subarray(KEY_BYTES) };
    const conditions: readonly (readonly [string, ...Uint8Array[]])[] = [
      ...(mint === null ? [] : [['mint = ?', mint] as const]),
      ...(last !== null && mint !== null ? [['hash > ?', last.hash] as const] : []),
      ...(last !== null && mint === null ? [['(mint, hash) > (?, ?)', last.mint, last.hash] as const] : []),
    ];
    const query = queryWhere(conditions.map(([text]) => text));
    const parameters = [key, ...conditions.flatMap(([, ...keys]) => keys), count];
    const { slot, value } = seenRows(packed, await query(store.read, parameters));
    return {
      slot,
      value: value.sort((a, b) => Buffer.compare(a.mint, b.mint) || Buffer.compare(a.hash, b.hash)),
    };
  };
}

/** Rows read per query. */
const ROWS = 1_000;

/** getCompressedTokenAccountBalance: of one account, or of all of an owner. */
export const getCompressedTokenAccountBalance = (): MethodFactory =>
  compressionMethod({
    name: 'getCompressedTokenAccountBalance',
    summary: 'Tokens in one compressed account, or in all unspent ones of an owner, given as address',
    fields: oneAccountFields(),
    result: Type.Object({ amount: u64('raw units; 0 without tokens') }),
    async run(params, { db }) {
      const { column, key } = whichOne(params);
      const amount = column === 'hash' ? await amountOf(db, key) : await sumOf(db, key);
      if (amount > U64_MOST) throw withheld('the sum of the amounts is larger than any balance can be');
      return { amount: numberJson(amount) };
    },
  });

async function amountOf(db: CompressionDb, hash: Uint8Array): Promise<bigint> {
  const row = await db
    .selectFrom('compression_token_accounts')
    .select('amount')
    .where('hash', '=', hash)
    .where(unspent('spent'))
    .executeTakeFirst();
  return row === undefined ? 0n : u64Of(row.amount);
}

/** Databases cannot add these numbers: the balances of the owner, one row per mint, are added here. */
async function sumOf(db: CompressionDb, owner: Uint8Array): Promise<bigint> {
  let sum = 0n;
  for (let from: Uint8Array | null = null; ; ) {
    let query = db
      .selectFrom('compression_token_balances')
      .select(['mint', 'amount'])
      .where('owner', '=', owner)
      .orderBy('mint')
      .limit(ROWS);
    if (from !== null) query = query.where('mint', '>', from);
    const rows: { mint: Uint8Array; amount: Uint8Array }[] = await query.execute();
    for (const { amount } of rows) sum += u64Of(amount);
    const last = rows[rows.length - 1];
    if (rows.length < ROWS || last === undefined) return sum;
    from = last.mint;
  }
}

/** getCompressedTokenBalancesByOwner and its V2, which names the list differently. */
export function getCompressedTokenBalancesByOwner(version: RecordVersion): MethodFactory {
  const items = version === 1 ? 'token_balances' : 'items';
  return compressionMethod({
    name: version === 1 ? 'getCompressedTokenBalancesByOwner' : 'getCompressedTokenBalancesByOwnerV2',
    summary: 'Compressed token balances of an owner above 0, by mint',
    fields: {
      owner: key32('owner of the tokens'),
      mint: optional(key32('only this mint')),
      cursor: cursor(KEY_BYTES),
      limit: limit(),
    },
    result: pageSchema(Type.Object({ mint: key('mint'), balance: u64('raw units') }), items),
    async run({ owner, mint, cursor: from, limit: most }, { db }) {
      let query = db
        .selectFrom('compression_token_balances')
        .select(['mint', 'amount'])
        .where('owner', '=', owner)
        .where('amount', '>', u64Bytes(0n))
        .orderBy('mint')
        .limit(most + 1);
      // A mint has one row per owner, so there is no next page.
      if (mint !== null) query = query.where('mint', '=', mint);
      else if (from !== null) query = query.where('mint', '>', from);
      const page = pageOf(await query.execute(), most, (last) => encode32(last.mint));
      return {
        [items]: page.rows.map((row) => ({ mint: encode32(row.mint), balance: u64Json(row.amount) })),
        cursor: page.cursor,
      };
    },
  });
}

/** Amount, little-endian, and owner of the last row. */
const CURSOR_BYTES = 40;
const AMOUNT_BYTES = 8;

/** getCompressedMintTokenHolders */
export const getCompressedMintTokenHolders = (): MethodFactory =>
  compressionMethod({
    name: 'getCompressedMintTokenHolders',
    summary: 'Owners of a mint with compressed balances above 0, the largest first',
    fields: { mint: key32('mint'), cursor: cursor(CURSOR_BYTES), limit: limit() },
    result: pageSchema(Type.Object({ owner: key('owner of the tokens'), balance: u64('raw units') })),
    async run({ mint, cursor: from, limit: most }, { db }) {
      let query = db
        .selectFrom('compression_token_balances')
        .select(['owner', 'amount'])
        .where('mint', '=', mint)
        .where('amount', '>', u64Bytes(0n))
        .orderBy('amount', 'desc')
        .orderBy('owner', 'desc')
        .limit(most + 1);
      if (from !== null) {
        const place = [from.slice(0, AMOUNT_BYTES).reverse(), from.subarray(AMOUNT_BYTES)] as const;
        query = query.where(after(['amount', 'owner'], 'desc', place));
      }
      const page = pageOf(await query.execute(), most, ({ amount, owner }) => {
        const bytes = Buffer.alloc(CURSOR_BYTES);
        bytes.writeBigUInt64LE(u64Of(amount));
        bytes.set(owner, AMOUNT_BYTES);
        return encode(bytes);
      });
      return {
        items: page.rows.map(({ owner, amount }) => ({ owner: encode32(owner), balance: u64Json(amount) })),
        cursor: page.cursor,
      };
    },
  });
