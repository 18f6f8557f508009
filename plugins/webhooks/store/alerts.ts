import type { StoreTx } from '../../../src/ports/store.ts';
import type { Db } from './tables.ts';

/** What the operator was told of a webhook. Times are unix milliseconds. */
export interface AlertState {
  readonly number: number;
  /** Since when it is known to fail; null while it is not. */
  readonly failingSince: number | null;
  /** Deliveries that were given up and not told yet. */
  readonly exhausted: number;
  readonly exhaustedToldAt: number;
}

export async function readAlerts(tx: StoreTx, numbers: readonly number[]): Promise<ReadonlyMap<number, AlertState>> {
  const rows = await (tx.db as Db).selectFrom('webhook_alerts').selectAll().where('number', 'in', numbers).execute();
  return new Map(
    rows.map((row) => [
      row.number,
      {
        number: row.number,
        failingSince: row.failing_since,
        exhausted: row.exhausted,
        exhaustedToldAt: row.exhausted_told_at,
      },
    ]),
  );
}

export async function writeAlert(tx: StoreTx, state: AlertState): Promise<void> {
  const values = {
    failing_since: state.failingSince,
    exhausted: state.exhausted,
    exhausted_told_at: state.exhaustedToldAt,
  };
  await (tx.db as Db)
    .insertInto('webhook_alerts')
    .values({ number: state.number, ...values })
    .onConflict((conflict) => conflict.column('number').doUpdateSet(values))
    .execute();
}
