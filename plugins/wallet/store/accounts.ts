import type { StoreTx } from '../../../src/ports/store.ts';
import type { KeyNumbers } from './keys.ts';
import type { Db } from './tables.ts';

/** A token account that a wallet owns or owned. */
export interface OwnedAccount {
  readonly account: Uint8Array;
  readonly mint: Uint8Array;
}

export interface StoredAccount extends OwnedAccount {
  readonly id: number;
}

/** `numbers` must have been asked for all accounts. */
export async function writeAccounts(
  tx: StoreTx,
  wallet: number,
  accounts: Iterable<OwnedAccount>,
  numbers: KeyNumbers,
): Promise<void> {
  const rows = [...accounts].map(({ account, mint }) => [wallet, numbers.of(account), Buffer.from(mint)]);
  if (rows.length > 0) await tx.insertMany('wallet_accounts', ['wallet', 'account', 'mint'], rows, 'ignore');
}

/** All token accounts that a wallet is known to have owned, or those of a mint. An account is named once for each of its mints. */
export async function readAccounts(db: Db, wallet: number, mint?: Uint8Array): Promise<StoredAccount[]> {
  let query = db
    .selectFrom('wallet_accounts as o')
    .innerJoin('wallet_keys as k', 'k.id', 'o.account')
    .select(['o.account as id', 'k.key as account', 'o.mint as mint'])
    .where('o.wallet', '=', wallet);
  if (mint !== undefined) query = query.where('o.mint', '=', Buffer.from(mint));
  return await query.orderBy('o.account').execute();
}
