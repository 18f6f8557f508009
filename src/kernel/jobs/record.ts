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
  /** Writing it has failed before, and may have happened nevertheless. */
  readonly isUnsure?: true;
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

/**
 * Of outcomes that could not be written those that this process has written before, without hearing of it: an attempt more is counted,
 * and no claim was lost meanwhile, so that nobody else can have made it.
 */
export async function writtenBefore(tx: StoreTx, finished: readonly Finished[]): Promise<Finished[]> {
  const unsure = finished.filter(({ outcome }) => uncountedOf(outcome) === false);
  if (unsure.length === 0) return [];
  const parameters = createParameters(tx.dialect);
  const ids = padded<number | null>(
    unsure.map(({ claimed }) => claimed.job.id),
    null,
  ).map((id) => parameters.add(id));
  type Row = { readonly id: number; readonly attempts: number; readonly lost: number };
  const rows = await query<Row>(tx.db, `select id, attempts, lost from outbox where id in (${ids})`, parameters);
  const now = new Map(rows.map((row) => [row.id, row]));
  return unsure.filter(({ claimed: { job, lost } }) => {
    const row = now.get(job.id);
    return row !== undefined && row.attempts > job.attempts && row.lost === lost;
  });
}

const uncountedOf = (outcome: JobOutcome) =>
  (outcome.kind === 'retry' || outcome.kind === 'held') && (outcome.uncounted ?? false);

/** In the order of the columns of `v`. */
function valuesOf({ claimed, outcome }: Finished, now: number): readonly (string | number | null)[] {
  const uncounted = uncountedOf(outcome);
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
