import { RequestError } from '../../src/plugin/request.ts';
import type { Commitment } from '../../src/ports/chain.ts';
import type { Asker, SignatureRow, Transactions } from './fetch.ts';

export interface HistoryQuestion {
  readonly address: string;
  readonly before: string | null;
  readonly until: string | null;
  readonly commitment: Commitment;
  readonly window: Window;
  /** Rows of one call to the upstream. */
  readonly pageSize: number;
}

/** Pages of the signatures of an address within the window, newest first; a page may be empty. Ends where the history does. */
export async function* newestFirst(
  transactions: Transactions,
  { address, before: from, until, commitment, window, pageSize }: HistoryQuestion,
  asker: Asker,
): AsyncGenerator<{ readonly rows: readonly SignatureRow[]; readonly last: string }> {
  for (let before = from; ; ) {
    const page = await transactions.page(address, { before, until, limit: pageSize, commitment }, asker);
    const last = page.at(-1);
    if (last === undefined) return;
    yield { rows: page.filter((row) => !isAbove(row, window) && !isBelow(row, window)), last: last.signature };
    if (page.length < pageSize || isBelow(last, window)) return;
    before = last.signature;
  }
}

/**
 * The signatures of an address within the window, oldest first. The upstream only goes back, so all of them are listed first; errors:
 * RequestError 400 when there are more than `maxRows`.
 */
export async function oldestFirst(
  transactions: Transactions,
  question: HistoryQuestion,
  maxRows: number,
  asker: Asker,
): Promise<readonly SignatureRow[]> {
  const rows: SignatureRow[] = [];
  let listed = 0;
  for await (const page of newestFirst(transactions, question, asker)) {
    rows.push(...page.rows);
    listed += question.pageSize;
    if (listed > maxRows)
      throw new RequestError(400, 'sort-order asc: too many transactions; give after-signature, gt-slot or gt-time');
  }
  return rows.reverse();
}

/** Bounds of a history, all inclusive; null: open. */
export interface Window {
  readonly fromSlot: number | null;
  readonly toSlot: number | null;
  /** Unix seconds. */
  readonly fromTime: number | null;
  readonly toTime: number | null;
}

/** Newer than the window: older ones may still be in it. */
function isAbove({ slot, blockTime }: SignatureRow, { toSlot, toTime }: Window): boolean {
  return (toSlot !== null && slot > toSlot) || (toTime !== null && blockTime != null && blockTime > toTime);
}

/** Older than the window, and so is everything behind it. */
function isBelow({ slot, blockTime }: SignatureRow, { fromSlot, fromTime }: Window): boolean {
  return (fromSlot !== null && slot < fromSlot) || (fromTime !== null && blockTime != null && blockTime < fromTime);
}
