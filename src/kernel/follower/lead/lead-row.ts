import { CodedError } from '../../../lib/coded-error.ts';
import type { ChainId } from '../../../ports/chain.ts';
import type { Queries, StoreTx } from '../../../ports/store.ts';
import { EXIT } from '../../errors.ts';
import { followTables, type LeaderRow } from '../tables.ts';

export async function readLeader(db: Queries, chain: ChainId): Promise<LeaderRow | null> {
  const row = await followTables(db)
    .selectFrom('follow_leaders')
    .selectAll()
    .where('chain', '=', chain)
    .executeTakeFirst();
  return row ?? null;
}

/** Takes the lead under the next epoch, unless the row is no longer as it was seen. Gives the epoch, or null. */
export async function takeLead(
  tx: StoreTx,
  chain: ChainId,
  seen: LeaderRow | null,
  holder: string,
): Promise<number | null> {
  if (seen === null) {
    const columns = ['chain', 'epoch', 'holder', 'beat'];
    const written = await tx.insertMany('follow_leaders', columns, [[chain, 1, holder, 0]], 'ignore');
    return written === 1 ? 1 : null;
  }
  const epoch = seen.epoch + 1;
  const { numUpdatedRows } = await followTables(tx.db)
    .updateTable('follow_leaders')
    .set({ epoch, holder, beat: 0 })
    .where('chain', '=', chain)
    .where('epoch', '=', seen.epoch)
    // A leader that still writes holds the row until it commits, and has moved the beat then.
    .where('beat', '=', seen.beat)
    .executeTakeFirst();
  return Number(numUpdatedRows) === 1 ? epoch : null;
}

/**
 * Proves inside a transaction that the epoch still leads, and shows others that its holder lives. Nobody can take the lead before the
 * transaction has ended. Errors: FOLLOW_FENCED, exit 75.
 */
export async function proveLead(tx: StoreTx, chain: ChainId, epoch: number): Promise<void> {
  const { numUpdatedRows } = await followTables(tx.db)
    .updateTable('follow_leaders')
    .set((eb) => ({ beat: eb('beat', '+', 1) }))
    .where('chain', '=', chain)
    .where('epoch', '=', epoch)
    .executeTakeFirst();
  if (Number(numUpdatedRows) === 1) return;
  throw new CodedError('FOLLOW_FENCED', `another process has taken over the following of the ${chain} chain`, {
    exitCode: EXIT.temporary,
    facts: { chain, epoch },
  });
}

/** Lets the next one lead without a wait. */
export async function resignLead(tx: StoreTx, chain: ChainId, epoch: number): Promise<void> {
  await followTables(tx.db)
    .updateTable('follow_leaders')
    .set({ holder: null })
    .where('chain', '=', chain)
    .where('epoch', '=', epoch)
    .execute();
}
