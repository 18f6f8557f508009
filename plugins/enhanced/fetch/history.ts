import { RequestError } from '../../../src/kernel/request.ts';
import type { Commitment } from '../../../src/ports/chain.ts';
import type { SignatureRow, Transactions } from './transactions.ts';
import { isAbove, isBelow, type Window } from './window.ts';

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
  signal: AbortSignal,
): AsyncGenerator<{ readonly rows: readonly SignatureRow[]; readonly last: string }> {
  for (let before = from; ; ) {
    const page = await transactions.page(address, { before, until, limit: pageSize, commitment }, signal);
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
  signal: AbortSignal,
): Promise<readonly SignatureRow[]> {
  const rows: SignatureRow[] = [];
  let listed = 0;
  for await (const page of newestFirst(transactions, question, signal)) {
    rows.push(...page.rows);
    listed += question.pageSize;
    if (listed > maxRows)
      throw new RequestError(400, 'sort-order asc: too many transactions; give after-signature, gt-slot or gt-time');
  }
  return rows.reverse();
}
