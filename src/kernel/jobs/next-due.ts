import type { Store } from '../../ports/store.ts';
import { createParameters, query } from './statement.ts';

/** When the next pending row of these kinds becomes due after `now`, or null. Rows that are due and wait for room don't count. */
export async function nextDueAt(store: Store, kinds: readonly string[], now: number): Promise<number | null> {
  if (kinds.length === 0) return null;
  const parameters = createParameters(store.dialect);
  const parts = kinds.flatMap((kind) =>
    [0, 1].map(
      (lane) => `select (select run_at from outbox where state = 'pending' and kind = ${parameters.add(kind)}
        and lane = ${lane} and run_at > ${parameters.add(now)} order by run_at limit 1) as run_at`,
    ),
  );
  const rows = await query<{ readonly run_at: number | null }>(store.read, parts.join(' union all '), parameters);
  const times = rows.flatMap(({ run_at }) => run_at ?? []);
  return times.length === 0 ? null : Math.min(...times);
}
