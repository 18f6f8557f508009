import { encode32 } from '../../../../src/lib/base58.ts';
import { TREE_TYPE } from '../../../../src/solana/compression/events.ts';
import type { Db } from '../../store/tables.ts';
import { findAccounts } from '../accounts/find.ts';
import { unavailable } from '../errors.ts';
import { accountRecord, NO_KEY, type RecordVersion } from '../records/account.ts';
import type { FullAccount } from '../records/account-rows.ts';
import { byBytes, distinctBytes } from '../records/by-bytes.ts';
import { tokenRecord } from '../records/token.ts';

/** Hashes that an error names; a transaction can hold many. */
const MOST_NAMED = 8;

/** The accounts that a transaction spent. A chain transaction tells their hashes only. Errors: -32002 when one is not indexed. */
export async function closedAccounts(db: Db, inputs: readonly Uint8Array[], version: RecordVersion): Promise<object[]> {
  const hashes = distinctBytes(inputs);
  if (hashes.length === 0) return [];
  const accounts = await findAccounts(db, hashes);
  const missing = hashes.filter((hash) => accounts.get(hash) === undefined);
  if (missing.length > 0) {
    const names = missing.slice(0, MOST_NAMED).map((hash) => encode32(hash));
    throw unavailable(`${missing.length} closed accounts of the transaction are not indexed: ${names.join(', ')}`);
  }
  const tokens = byBytes(
    await db.selectFrom('compression_token_accounts').selectAll().where('hash', 'in', hashes).execute(),
    ({ hash }) => hash,
  );
  return hashes.flatMap((hash) => {
    const row = accounts.get(hash);
    if (row === undefined) return [];
    const held = tokens.get(hash);
    return [
      {
        account: version === 1 ? accountRecord(row, 1) : { account: accountRecord(row, 2), ...spendOf(row) },
        optionalTokenData: held === undefined ? null : tokenRecord(held),
      },
    ];
  });
}

/** Trees without queues know neither of the two. */
function spendOf({ tree_type: type, nullifier, tx_hash: txHash }: FullAccount): object {
  const shown = (hash: Uint8Array | null) => (hash === null || type === TREE_TYPE.stateV1 ? NO_KEY : encode32(hash));
  return { nullifier: shown(nullifier), txHash: shown(txHash) };
}
