import { key32 } from '../fields.ts';
import { compressionMethod, type MethodFactory } from '../method.ts';
import { u64 } from '../records/schemas.ts';
import { u64Json } from '../records/u64-json.ts';
import { unspent } from '../sql.ts';
import { oneAccountFields, whichOne } from './which.ts';

/** getCompressedBalance, which has a second name. */
export const getCompressedBalance = (name: 'getCompressedBalance' | 'getCompressedAccountBalance'): MethodFactory =>
  compressionMethod({
    name,
    summary: 'Lamports of the unspent compressed account with an address or a hash; 0 when there is none',
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
