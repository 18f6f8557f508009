import { sql } from 'kysely';
import type { StoreTx } from '../../../src/ports/store.ts';
import type { Db, WalletRefusal, WalletRow } from './tables.ts';
import { timeBefore } from './transactions.ts';
import { dropWallets } from './wallets.ts';

/** What one wallet may take up. */
export interface WalletLimits {
  /** In all. */
  readonly transactions: number;
  readonly transactionsPerMinute: number;
  /** Unix milliseconds. */
  now(): number;
}

/** A rate is measured over as many transactions, which is a page of signatures: a burst of fewer is nothing. */
export const RATE_TRANSACTIONS = 1_000;
const IDS_AT_ONCE = 400;

/**
 * Counts what final blocks up to a slot brought to the followed wallets among `counts`, and drops those that have become too busy or too
 * large: they say so from then on. Wallets that the operator pinned are only counted.
 */
export async function countTransactions(
  tx: StoreTx,
  counts: ReadonlyMap<number, number>,
  slot: number,
  limits: WalletLimits,
): Promise<void> {
  if (counts.size === 0) return;
  const db = tx.db as Db;
  const ids = [...counts.keys()];
  const time = (await timeBefore(db, slot)) ?? 0;
  for (let at = 0; at < ids.length; at += IDS_AT_ONCE) {
    const rows = await db
      .selectFrom('wallet_wallets')
      .selectAll()
      .where('id', 'in', ids.slice(at, at + IDS_AT_ONCE))
      .where('is_followed', '=', 1)
      .execute();
    if (rows.length === 0) continue;
    const counted = rows.map((row) => count(row, counts.get(row.id) ?? 0, time, limits));
    const values = counted.map(({ id, stored, from, rateCount }) => `(${id}, ${stored}, ${from}, ${rateCount})`);
    await sql`UPDATE wallet_wallets SET stored = v.column2, rate_from = v.column3, rate_count = v.column4
      FROM (VALUES ${sql.raw(values.join())}) AS v WHERE wallet_wallets.id = v.column1`.execute(tx.db);
    for (const { id, refused, size } of counted)
      if (refused !== null) await dropWallets(tx, [id], limits.now(), { refused, size });
  }
}

interface Counted {
  readonly id: number;
  readonly stored: number;
  readonly from: number;
  readonly rateCount: number;
  readonly refused: WalletRefusal | null;
  readonly size: number;
}

function count(row: WalletRow, added: number, time: number, limits: WalletLimits): Counted {
  const { id, is_pinned } = row;
  const stored = row.stored + added;
  const rateCount = row.rate_count + added;
  const seconds = Math.max(1, time - row.rate_from);
  const perMinute = Math.round((rateCount * 60) / seconds);
  const isFull = rateCount >= RATE_TRANSACTIONS;
  const isBusy = isFull && row.rate_from > 0 && perMinute > limits.transactionsPerMinute;
  const refused = is_pinned === 1 ? null : isBusy ? 'busy' : stored >= limits.transactions ? 'large' : null;
  // Slower than it may be: the measurement begins again with what comes next.
  const isSlow = seconds * limits.transactionsPerMinute > RATE_TRANSACTIONS * 60;
  const restarts = row.rate_from === 0 || isFull || isSlow;
  return {
    ...{ id, stored, refused, size: isBusy ? perMinute : stored },
    ...{ from: restarts ? time : row.rate_from, rateCount: restarts ? 0 : rateCount },
  };
}
