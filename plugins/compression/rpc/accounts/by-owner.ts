import { encode32 } from '../../../../src/lib/base58.ts';
import type { Db } from '../../store/tables.ts';
import { invalid } from '../errors.ts';
import { cursor, integer, key32, limit, objectOf, optional } from '../fields.ts';
import { compressionMethod, type MethodFactory } from '../method.ts';
import { pageOf, pageText } from '../page.ts';
import type { RecordVersion } from '../records/account.ts';
import { recordTexts } from '../records/listed.ts';
import { accountSchema, pageSchema } from '../records/schemas.ts';
import { filtersField, offset } from './filters.ts';
import { type OwnerPlace, ownerPage } from './owner-page.ts';

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

/** An account that was spent since still tells its place. */
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
