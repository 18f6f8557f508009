import { Type } from '@sinclair/typebox';
import { compressionMethod, type MethodFactory } from '../method.ts';
import { accountRecord, type RecordVersion } from '../records/account.ts';
import { distinctBytes } from '../records/by-bytes.ts';
import { accountSchema, orNull } from '../records/schemas.ts';
import { findUnspent } from './find.ts';
import { manyAccountsFields, oneAccountFields, whichMany, whichOne } from './which.ts';

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
    summary: 'Unspent compressed accounts by hash or by address, in the order asked for; null where there is none',
    fields: manyAccountsFields(),
    result: Type.Object({ items: Type.Array(orNull(accountSchema(version))) }),
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
