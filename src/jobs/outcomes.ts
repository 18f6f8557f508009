import { messageOf } from '../lib/coded-error.ts';
import type { JobKind, JobOutcome, SettledJob } from '../plugin/plugin.ts';
import type { Log } from '../ports/log.ts';
import type { Store, StoreTx } from '../ports/store.ts';
import type { ClaimedJob } from './claim.ts';
import { endOfClaim } from './outbox.ts';
import { createParameters, laneOf, padded, query } from './table.ts';

/** Writes outcomes and what their kinds write beside them. Returns the outcomes that count, also those that had been written already. */
export async function settleAll(
  tx: StoreTx,
  kinds: ReadonlyMap<string, JobKind>,
  finished: readonly Finished[],
  now: number,
): Promise<Finished[]> {
  const recorded = await recordOutcomes(tx, finished, now);
  const before = await writtenBefore(
    tx,
    finished.filter((one) => one.isUnsure === true && !recorded.includes(one)),
  );
  for (const [name, kind] of kinds) {
    const ofKind = settledOf(name, recorded);
    if (ofKind.length > 0) await kind.settle?.(tx, ofKind);
    const written = [...ofKind, ...settledOf(name, before)];
    // A transaction may run again: it is told when it is through.
    if (written.length > 0 && kind.written !== undefined) tx.onCommit(() => kind.written?.(written));
  }
  return [...recorded, ...before];
}

const settledOf = (kind: string, finished: readonly Finished[]): SettledJob[] =>
  finished
    .filter(({ claimed }) => claimed.job.kind === kind)
    .map(({ claimed, outcome }) => ({ job: claimed.job, outcome }));

/**
 * After a kind's `settle` threw: writes the outcomes one by one, so that one bad job spoils nobody else's. A job whose own writing
 * fails becomes `failed`: run again, it would have its effect again and fail again. Errors: those of the store.
 */
export async function settleSingly(
  store: Store,
  kinds: ReadonlyMap<string, JobKind>,
  finished: readonly Finished[],
  now: number,
  log: Log,
): Promise<Finished[]> {
  const recorded: Finished[] = [];
  for (const one of finished) {
    try {
      recorded.push(...(await store.write((tx) => settleAll(tx, kinds, [one], now))));
    } catch (error) {
      if (isStoreTrouble(error)) throw error;
      const { kind, key } = one.claimed.job;
      log.error({ kind, key, error: messageOf(error) }, 'the outcome of a job could not be written by its kind');
      const outcome: JobOutcome = { kind: 'failed', error: `JOB_SETTLE_FAILED: ${messageOf(error)}` };
      recorded.push(...(await store.write((tx) => recordOutcomes(tx, [{ ...one, outcome }], now))));
    }
  }
  return recorded;
}

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
async function recordOutcomes(tx: StoreTx, finished: readonly Finished[], now: number): Promise<Finished[]> {
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
      run_at = coalesce(v.run_at, outbox.run_at), lease_until = null, owner = null,
      ${endOfClaim('v.undone = 1', parameters.add(now), { state: 'v.state', finishedAt: 'v.finished_at', error: 'v.error' })}
    from v where outbox.id = v.id and outbox.claims = v.claims and outbox.state = 'running' returning outbox.id as id`;
  const written = new Set((await query<{ readonly id: number }>(tx.db, text, parameters)).map(({ id }) => id));
  return finished.filter(({ claimed }) => written.has(claimed.job.id));
}

/**
 * Of outcomes that could not be written those that this process has written before, without hearing of it: an attempt more is counted,
 * and no claim was lost meanwhile, so that nobody else can have made it.
 */
async function writtenBefore(tx: StoreTx, finished: readonly Finished[]): Promise<Finished[]> {
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

/** Whether the store itself is in trouble, rather than what was asked of it. */
export function isStoreTrouble(error: unknown): boolean {
  const code = (error as { readonly code?: unknown } | null)?.code;
  return (
    typeof code === 'string' && code.startsWith('STORE_') && code !== 'STORE_CONFLICT' && code !== 'STORE_CONSTRAINT'
  );
}

/** Whether it is trouble that may pass. */
export function isPassingTrouble(error: unknown): boolean {
  return isStoreTrouble(error) && (error as { readonly retryable?: unknown }).retryable === true;
}
