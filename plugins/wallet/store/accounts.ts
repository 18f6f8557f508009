import type { StoreTx } from '../../../src/ports/store.ts';
import type { Db } from './tables.ts';

/** A token account that a wallet owns or owned. */
export interface OwnedAccount {
  readonly account: Uint8Array;
  readonly mint: Uint8Array;
}

export async function writeAccounts(tx: StoreTx, wallet: number, accounts: Iterable<OwnedAccount>): Promise<void> {
  const rows = [...accounts].map(({ account, mint }) => [wallet, Buffer.from(account), Buffer.from(mint)]);
  if (rows.length > 0) await tx.insertMany('wallet_accounts', ['wallet', 'account', 'mint'], rows, 'ignore');
}

/** All token accounts that a wallet is known to have owned, or those of a mint. An account is named once for each of its mints. */
export async function readAccounts(db: Db, wallet: number, mint?: Uint8Array): Promise<OwnedAccount[]> {
  let query = db.selectFrom('wallet_accounts').select(['account', 'mint']).where('wallet', '=', wallet);
  if (mint !== undefined) query = query.where('mint', '=', Buffer.from(mint));
  return await query.orderBy('account').execute();
}
