import type { StoreTx } from '../../ports/store.ts';
import { type ClaimedJob, claimRows } from './claim.ts';
import { endOfClaim } from './forked.ts';
import { change, createParameters } from './statement.ts';

const GIVEN_AT_ONCE = 256;
const LOST = 'the process that ran it ended without an outcome';

/**
 * Returns jobs whose lease has run out to `pending`; one that was lost `maxLost` times becomes `failed`, because it may be what ends
 * the processes. Returns how many there were.
 */
export async function returnExpired(tx: StoreTx, now: number, maxLost: number): Promise<number> {
  const parameters = createParameters(tx.dialect);
  const limit = parameters.add(maxLost);
  const text = `update outbox set state = case when lost + 1 >= ${limit} then 'failed' else 'pending' end,
      finished_at = case when lost + 1 >= ${parameters.add(maxLost)} then cast(${parameters.add(now)} as bigint) end,
      lost = lost + 1, lease_until = null, error = '${LOST}'
    where state = 'running' and lease_until < ${parameters.add(now)}`;
  return await change(tx.db, text, parameters);
}

/** Jobs that were claimed and not begun become pending again, as if nothing had happened. */
export async function giveBack(tx: StoreTx, jobs: readonly ClaimedJob[], now: number): Promise<void> {
  for (let from = 0; from < jobs.length; from += GIVEN_AT_ONCE) {
    const parameters = createParameters(tx.dialect);
    const pending = { state: "'pending'", finishedAt: 'null', error: 'outbox.error' };
    const text = `with v(id, claims) as (values ${claimRows(jobs.slice(from, from + GIVEN_AT_ONCE), parameters)})
      update outbox set lease_until = null, claims = outbox.claims - 1, ${endOfClaim('true', parameters.add(now), pending)}
      from v where outbox.id = v.id and outbox.claims = v.claims and outbox.state = 'running'`;
    await change(tx.db, text, parameters);
  }
}

/**
 * Spreads up to `limit` retries that became due while nobody was there over the next `overMs`: all their receivers would be asked
 * at once otherwise. Returns how many were moved.
 */
export async function spreadOverdue(
  tx: StoreTx,
  options: { readonly before: number; readonly now: number; readonly overMs: number; readonly limit: number },
): Promise<number> {
  const parameters = createParameters(tx.dialect);
  // Multiplied by a prime, neighbours fall far apart, and always into the same place.
  const text = `update outbox set run_at = ${parameters.add(options.now)} + (id * 7919) % ${Math.trunc(options.overMs)}
    where id in (select id from outbox where state = 'pending' and attempts > 0 and run_at < ${parameters.add(options.before)}
      limit ${parameters.add(options.limit)})`;
  return await change(tx.db, text, parameters);
}
