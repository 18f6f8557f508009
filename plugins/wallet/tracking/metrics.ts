import type { Metrics } from '../../../src/plugin/plugin.ts';

/** What the index of wallets counts. */
export interface WalletMetrics {
  /** Rows that a block brought. */
  matched(rows: number): void;
  /** Rows of final blocks that were merged. */
  merged(rows: number): void;
  /** Transactions of the past that were stored. */
  kept(transactions: number): void;
}

export function createWalletMetrics(metrics: Metrics): WalletMetrics {
  const matched = metrics.counter('rows_matched_total', 'Rows of wallets and token accounts that blocks brought');
  const merged = metrics.counter('rows_merged_total', 'Rows of final blocks that were merged into the history');
  const kept = metrics.counter('transactions_backfilled_total', 'Transactions of the past of wallets that were stored');
  return {
    matched: (rows) => matched.add(rows),
    merged: (rows) => merged.add(rows),
    kept: (transactions) => kept.add(transactions),
  };
}
