import { Type } from '@sinclair/typebox';
import { encode32 } from '../../../../src/lib/base58.ts';
import { u64Bytes } from '../../store/u64.ts';
import { cursor, key32, limit, optional } from '../fields.ts';
import { compressionMethod, type MethodFactory } from '../method.ts';
import { pageOf } from '../page.ts';
import type { RecordVersion } from '../records/account.ts';
import { key, pageSchema, u64 } from '../records/schemas.ts';
import { u64Json } from '../records/u64-json.ts';

const KEY_BYTES = 32;

/** getCompressedTokenBalancesByOwner and its V2, whose list has another name. */
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
      // One mint has one row: there is nothing to go on after.
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
