import { Type } from '@sinclair/typebox';
import type { Db } from '../../store/tables.ts';
import { U64_MOST, u64Of } from '../../store/u64.ts';
import { oneAccountFields, whichOne } from '../accounts/which.ts';
import { withheld } from '../errors.ts';
import { compressionMethod, type MethodFactory } from '../method.ts';
import { u64 } from '../records/schemas.ts';
import { numberJson } from '../records/u64-json.ts';
import { unspent } from '../sql.ts';

/** Rows that are read at once. */
const ROWS = 1_000;

/** getCompressedTokenAccountBalance: of one account, or of all of an owner. */
export const getCompressedTokenAccountBalance = (): MethodFactory =>
  compressionMethod({
    name: 'getCompressedTokenAccountBalance',
    summary: 'Tokens in one compressed account, or in all unspent ones of an owner, who is given as address',
    fields: oneAccountFields(),
    result: Type.Object({ amount: u64('raw units; 0 when there is none') }),
    async run(params, { db }) {
      const { column, key } = whichOne(params);
      const amount = column === 'hash' ? await amountOf(db, key) : await sumOf(db, key);
      if (amount > U64_MOST) throw withheld('the sum of the amounts is larger than any balance can be');
      return { amount: numberJson(amount) };
    },
  });

async function amountOf(db: Db, hash: Uint8Array): Promise<bigint> {
  const row = await db
    .selectFrom('compression_token_accounts')
    .select('amount')
    .where('hash', '=', hash)
    .where(unspent('spent'))
    .executeTakeFirst();
  return row === undefined ? 0n : u64Of(row.amount);
}

/** Databases can't add these numbers: the balances of the owner, a row per mint, are added here. */
async function sumOf(db: Db, owner: Uint8Array): Promise<bigint> {
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
