import { encode } from '../../../../src/lib/base58.ts';
import type { Db, TokenAccountRow } from '../../store/tables.ts';
import { cursor, key32, limit, optional } from '../fields.ts';
import { compressionMethod, type MethodFactory } from '../method.ts';
import { pageOf, pageText } from '../page.ts';
import type { RecordVersion } from '../records/account.ts';
import { findListed, recordTexts } from '../records/listed.ts';
import { pageSchema, tokenAccountSchema } from '../records/schemas.ts';
import { after, unspent } from '../sql.ts';

const KEY_BYTES = 32;

type Who = 'owner' | 'delegate';

interface TokenPage {
  readonly who: Who;
  readonly key: Uint8Array;
  readonly mint: Uint8Array | null;
  /** Mint and hash of the last row before. */
  readonly from: Uint8Array | null;
  readonly count: number;
}

/** getCompressedTokenAccountsByOwner and …ByDelegate, and their V2. */
export function getCompressedTokenAccounts(who: Who, version: RecordVersion): MethodFactory {
  const name = who === 'owner' ? 'getCompressedTokenAccountsByOwner' : 'getCompressedTokenAccountsByDelegate';
  return compressionMethod({
    name: version === 1 ? name : `${name}V2`,
    summary: `Unspent compressed token accounts of ${who === 'owner' ? 'an owner' : 'a delegate'}, by mint`,
    fields: {
      ...(who === 'owner' ? { owner: key32('owner of the tokens') } : { delegate: key32('delegate of the tokens') }),
      mint: optional(key32('only this mint')),
      cursor: cursor(2 * KEY_BYTES),
      limit: limit(),
    },
    result: pageSchema(tokenAccountSchema(version)),
    async run(params, { db }) {
      const { mint, cursor: from, limit: most } = params;
      const key = 'owner' in params ? params.owner : params.delegate;
      const found = await tokenPage(db, { who, key, mint, from, count: most + 1 });
      const page = pageOf(found, most, (last) => encode(Buffer.concat([last.mint, last.hash])));
      return pageText(await tokenAccountTexts(db, page.rows, version), page.cursor);
    },
  });
}

async function tokenPage(db: Db, { who, key, mint, from, count }: TokenPage): Promise<TokenAccountRow[]> {
  let query = db
    .selectFrom('compression_token_accounts')
    .selectAll()
    .where(who, '=', key)
    .where(unspent('spent'))
    .orderBy('mint')
    .orderBy('hash')
    .limit(count);
  if (mint !== null) query = query.where('mint', '=', mint);
  if (from === null) return await query.execute();
  const hash = from.subarray(KEY_BYTES);
  return await (mint === null
    ? query.where(after(['mint', 'hash'], 'asc', [from.subarray(0, KEY_BYTES), hash]))
    : query.where('hash', '>', hash)
  ).execute();
}

/** With their accounts, in the same order. */
async function tokenAccountTexts(
  db: Db,
  tokens: readonly TokenAccountRow[],
  version: RecordVersion,
): Promise<string[]> {
  const found = await findListed(
    db,
    tokens.map(({ hash }) => hash),
  );
  const rows = tokens.flatMap((token) => {
    const account = found.get(token.hash);
    return account === undefined ? [] : [{ account, token }];
  });
  const texts = await recordTexts(
    db,
    rows.map(({ account }) => account),
    version,
  );
  return rows.map(({ account, token }) => `{"account":${texts.account(account)},"tokenData":${texts.tokens(token)}}`);
}
