import { type Account, countOf, type DayCount } from './account.ts';
import { addCredits, toCredits, toMicro } from './amount.ts';

/** What one project used, on its way to the store. */
export interface BatchEntry {
  readonly account: Account;
  readonly days: readonly DayCount[];
  /** Tokens by rate group that the other processes do not know of yet. */
  readonly taken: ReadonlyMap<string, number>;
}

/** One write. Its number tells a write that happened from one that did not, however the connection ended. */
export interface Batch {
  readonly seq: number;
  readonly entries: readonly BatchEntry[];
}

/** Moves what accounts have counted into a batch; they begin at nothing. */
export function collect(seq: number, accounts: readonly Account[]): Batch {
  return { seq, entries: accounts.map(collectOne) };
}

function collectOne(account: Account): BatchEntry {
  const days = [...account.closed];
  if (account.today.products.size > 0) {
    days.push(account.today);
    account.today = { ...account.today, products: new Map() };
  }
  account.closed = [];
  account.isDirty = false;
  account.revision += 1;
  const taken = new Map<string, number>();
  for (const [group, bucket] of account.buckets) {
    if (bucket.untold === 0) continue;
    taken.set(group, bucket.untold);
    bucket.untold = 0;
  }
  return { account, days, taken };
}

/** Millionths of a credit of some days. */
export function sumOf(days: readonly DayCount[]): bigint {
  let sum = 0n;
  for (const { products } of days)
    for (const { credits } of products.values()) sum += toMicro(credits.whole, credits.micro);
  return sum;
}

/** Credits of an entry that belong to the cycle that the account is in. */
export function creditsOfCycle({ account, days }: BatchEntry): number {
  return toCredits(sumOf(days.filter(({ cycleStart }) => cycleStart === account.cycle.start)));
}

/** Counts one settled call. */
export function countCall(
  account: Account,
  product: Parameters<typeof countOf>[1],
  call: { readonly credits: number; readonly bytes: number; readonly isRequest: boolean },
): void {
  const count = countOf(account.today, product);
  if (call.isRequest) count.requests += 1;
  count.bytes += call.bytes;
  addCredits(count.credits, call.credits);
  account.spentCredits += call.credits;
}
