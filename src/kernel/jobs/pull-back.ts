import type { StoreTx } from '../../ports/store.ts';
import type { JobKind } from '../plugin.ts';
import { AHEAD_WAIT_MS, leaseMsOf } from './claim.ts';
import { change, createParameters } from './statement.ts';

/** Clocks of processes that share a store may differ by this much. */
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
 * Pending jobs that were planned by a clock that was ahead would wait until the real time gets there. Those that were made in the
 * future are moved to now, with their delay; retries that are further ahead than their kind ever plans run now. Returns how many
 * there were.
 */
export async function pullBack(tx: StoreTx, kinds: Iterable<JobKind>, now: number): Promise<number> {
  let count = 0;
  for (const { kind, longestDelayMs } of kinds) {
    const parameters = createParameters(tx.dialect);
    const ahead = now + CLOCK_SKEW_MS;
    const moved = `update outbox set run_at = run_at - created_at + ${parameters.add(now)}, created_at = ${parameters.add(now)}
      where state = 'pending' and kind = ${parameters.add(kind)} and lane in (0, 1)
      and run_at > ${parameters.add(ahead)} and created_at > ${parameters.add(ahead)}`;
    count += await change(tx.db, moved, parameters);
    if (longestDelayMs === undefined) continue;
    const late = createParameters(tx.dialect);
    const retried = `update outbox set run_at = ${late.add(now)}
      where state = 'pending' and kind = ${late.add(kind)} and lane in (0, 1)
      and run_at > ${late.add(ahead + Math.ceil(longestDelayMs))}`;
    count += await change(tx.db, retried, late);
  }
  return count;
}
