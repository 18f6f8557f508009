import type { Db } from '../../store/tables.ts';
import { type FullAccount, selectAccounts } from '../records/account-rows.ts';
import { type ByBytes, byBytes } from '../records/by-bytes.ts';
import { unspent } from '../sql.ts';

export type Column = 'hash' | 'address';

/** Unspent accounts by hash or address. */
export async function findUnspent(db: Db, column: Column, keys: readonly Uint8Array[]): Promise<ByBytes<FullAccount>> {
  const rows =
    keys.length === 0
      ? []
      : await selectAccounts(db)
          .where(`a.${column}`, 'in', [...keys])
          .where(unspent('a.spent'))
          .execute();
  // The address is set: it was asked for.
  return byBytes(rows, (row) => row[column]!);
}

/** Accounts by hash, spent ones too. */
export async function findAccounts(db: Db, hashes: readonly Uint8Array[]): Promise<ByBytes<FullAccount>> {
  const rows =
    hashes.length === 0
      ? []
      : await selectAccounts(db)
          .where('a.hash', 'in', [...hashes])
          .execute();
  return byBytes(rows, ({ hash }) => hash);
}
