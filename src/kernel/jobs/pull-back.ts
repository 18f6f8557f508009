import type { StoreTx } from '../../ports/store.ts';
import type { JobKind } from '../plugin.ts';
import { AHEAD_WAIT_MS, leaseMsOf } from './claim.ts';
import { change, createParameters } from './statement.ts';

/** Clocks of processes that share a store may differ by this much: what one plans is late by no more with another. */
export const CLOCK_SKEW_MS = 60_000;

/**
 * Leases that are longer than any that could be given now come from a clock that was ahead: they are cut to the length of a fresh
 * one. Returns how many there were.
 */
export async function cutLeases(tx: StoreTx, kinds: Iterable<JobKind>, now: number): Promise<number> {
  let count = 0;
  for (const kind of kinds) {
    const parameters = createParameters(tx.dialect);
    const until = now + leaseMsOf(kind) + AHEAD_WAIT_MS;
    const least = (column: string) =>
      `${column} = case when ${column} > ${parameters.add(now)} then cast(${parameters.add(now)} as bigint) else ${column} end`;
    const text = `update outbox set lease_until = ${parameters.add(until)}, ${least('run_at')}, ${least('created_at')}
      where state = 'running' and lease_until > ${parameters.add(until + CLOCK_SKEW_MS)} and kind = ${parameters.add(kind.kind)}`;
    count += await change(tx.db, text, parameters);
  }
  return count;
}

/**
 * Pending jobs that a clock which is ahead of this one has made would wait until this one gets there: they are moved to now, with
 * their delay. Only those without a late retry behind them are looked at, because they are few. Returns how many there were.
 */
export async function pullNew(tx: StoreTx, kinds: Iterable<JobKind>, now: number): Promise<number> {
  let count = 0;
  for (const { kind } of kinds) count += await pullMade(tx, kind, 'lane = 0', now);
  return count;
}

/**
 * The same for all pending jobs, after a clock was set back by `byMs`. Retries that lie further ahead than that come earlier by as
 * much: those that it had planned come in time then, others a little early. Retries that are further ahead than their kind ever
 * plans run now. Infinite: by how much is not known.
 */
export async function pullBack(tx: StoreTx, kinds: Iterable<JobKind>, now: number, byMs: number): Promise<number> {
  let count = 0;
  for (const { kind, longestDelayMs } of kinds) {
    count += await pullMade(tx, kind, 'lane in (0, 1)', now);
    if (longestDelayMs === undefined) continue;
    if (Number.isFinite(byMs)) {
      const parameters = createParameters(tx.dialect);
      // It was set back at some time since the last look.
      const early = `update outbox set run_at = run_at - ${parameters.add(Math.trunc(byMs))}
        where state = 'pending' and kind = ${parameters.add(kind)} and lane in (0, 1) and attempts > 0
        and run_at > ${parameters.add(now + Math.trunc(byMs) - CLOCK_SKEW_MS)}`;
      count += await change(tx.db, early, parameters);
    }
    const parameters = createParameters(tx.dialect);
    const never = `update outbox set run_at = ${parameters.add(now)}
      where state = 'pending' and kind = ${parameters.add(kind)} and lane in (0, 1)
      and run_at > ${parameters.add(now + CLOCK_SKEW_MS + Math.ceil(longestDelayMs))}`;
    count += await change(tx.db, never, parameters);
  }
  return count;
}

async function pullMade(tx: StoreTx, kind: string, lanes: string, now: number): Promise<number> {
  const parameters = createParameters(tx.dialect);
  const ahead = now + CLOCK_SKEW_MS;
  const text = `update outbox set run_at = run_at - created_at + ${parameters.add(now)}, created_at = ${parameters.add(now)}
    where state = 'pending' and kind = ${parameters.add(kind)} and ${lanes}
    and run_at > ${parameters.add(ahead)} and created_at > ${parameters.add(ahead)}`;
  return await change(tx.db, text, parameters);
}
