import type { StoreTx } from '../../ports/store.ts';
import type { JobOutcome } from '../plugin.ts';
import type { ClaimedJob } from './claim.ts';
import { endOfClaim } from './forked.ts';
import { createParameters, padded, query } from './statement.ts';
import { laneOf } from './table.ts';

/** An attempt that is over. */
export interface Finished {
  readonly claimed: ClaimedJob;
  readonly outcome: JobOutcome;
}

const CASTS = ['bigint', 'integer', 'integer', 'text', 'integer', 'integer', 'bigint', 'bigint', 'text'] as const;

/**
 * Writes the outcomes into their rows with one statement. Returns those that were written: where another process has taken the job
 * in the meantime, its own outcome counts.
 */
export async function recordOutcomes(tx: StoreTx, finished: readonly Finished[], now: number): Promise<Finished[]> {
  if (finished.length === 0) return [];
  const parameters = createParameters(tx.dialect);
  const rows = padded<Finished | null>(finished, null).map((one, index) => {
    const values = one === null ? CASTS.map(() => null) : valuesOf(one, now);
    const places = values.map((value) => parameters.add(value));
    // Types of the first row are those of all.
    return `(${(index === 0 ? places.map((place, column) => `cast(${place} as ${CASTS[column]})`) : places).join(',')})`;
  });
  const text = `with v(id, claims, undone, state, attempts, lane, run_at, finished_at, error) as (values ${rows.join(',')})
    update outbox set claims = outbox.claims - v.undone, attempts = v.attempts, lane = v.lane,
      run_at = coalesce(v.run_at, outbox.run_at), lease_until = null,
      ${endOfClaim('v.undone = 1', parameters.add(now), { state: 'v.state', finishedAt: 'v.finished_at', error: 'v.error' })}
    from v where outbox.id = v.id and outbox.claims = v.claims and outbox.state = 'running' returning outbox.id as id`;
  const written = new Set((await query<{ readonly id: number }>(tx.db, text, parameters)).map(({ id }) => id));
  return finished.filter(({ claimed }) => written.has(claimed.job.id));
}

/** In the order of the columns of `v`. */
function valuesOf({ claimed, outcome }: Finished, now: number): readonly (string | number | null)[] {
  const uncounted = (outcome.kind === 'retry' || outcome.kind === 'held') && (outcome.uncounted ?? false);
  const isUncounted = uncounted !== false;
  const attempts = claimed.job.attempts + (isUncounted ? 0 : 1);
  const isOver = outcome.kind !== 'retry' && outcome.kind !== 'held';
  return [
    claimed.job.id,
    claimed.claim,
    uncounted === 'untouched' ? 1 : 0,
    outcome.kind === 'retry' ? 'pending' : outcome.kind,
    attempts,
    isUncounted ? claimed.lane : laneOf(attempts),
    outcome.kind === 'retry' ? Math.trunc(outcome.runAt) : null,
    isOver ? now : null,
    outcome.kind === 'done' ? null : outcome.error,
  ];
}
