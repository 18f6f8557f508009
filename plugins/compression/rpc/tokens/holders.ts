import { Type } from '@sinclair/typebox';
import { encode, encode32 } from '../../../../src/lib/base58.ts';
import { u64Bytes, u64Of } from '../../store/u64.ts';
import { cursor, key32, limit } from '../fields.ts';
import { compressionMethod, type MethodFactory } from '../method.ts';
import { pageOf } from '../page.ts';
import { key, pageSchema, u64 } from '../records/schemas.ts';
import { u64Json } from '../records/u64-json.ts';
import { after } from '../sql.ts';

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
