/** What a store may count of calls that were answered, where processes end before they have written it. */
import type { Store } from '../../src/ports/store.ts';

/** What a store counts of one product. */
export interface Counted {
  readonly requests: number;
  readonly credits: number;
}

/** When writes failed; `untilMs` is null while they do. Of the clock that never jumps. */
export interface Failing {
  readonly sinceMs: number;
  readonly untilMs: number | null;
}

/**
 * Since when a process that ended at `atMs` may not have written what it counted. What waited to be written when writing began to fail
 * still does, and does so until the next time that it is tried. `flushMs`: what may pass between a call and the write of it; `pauseMs`:
 * until what could not be written counts as a call at all.
 */
export function unwrittenSince(atMs: number, failing: Failing | null, flushMs: number, pauseMs = 0): number {
  const isBehind = failing !== null && (failing.untilMs ?? atMs) + pauseMs + flushMs >= atMs;
  return Math.min(atMs, isBehind ? failing.sinceMs : atMs) - flushMs;
}

/** In words what is wrong with a number. */
export function outside(what: string, counted: number, [least, most]: readonly [number, number]): string | null {
  if (counted < least) return `${counted} ${what} are counted, and there were ${least} at least`;
  return counted > most ? `${counted} ${what} are counted, and there were ${most} at most` : null;
}

export async function countedOf(store: Pick<Store, 'read'>, product: string): Promise<Counted> {
  const rows = await store.read.selectFrom('usage_days').selectAll().where('product', '=', product).execute();
  const sum = (column: 'requests' | 'credits') => rows.reduce((all, row) => all + Number(row[column]), 0);
  return { requests: sum('requests'), credits: sum('credits') };
}
