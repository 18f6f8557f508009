import { messageOf } from '../lib/coded-error.ts';
import type { FinishedJob, JobKind, JobOutcome } from '../plugin/plugin.ts';
import type { Store, StoreTx } from '../ports/store.ts';
import type { Log } from '../ports/telemetry.ts';
import type { ClaimedJob } from './claim.ts';
import { endOfClaim } from './outbox.ts';
import { createParameters, laneOf, padded, query } from './table.ts';
import { type AckEvent, OUTBOX, sqlChange } from './transitions.ts';

/** Acks finished attempts: writes the outcomes, and what their kinds write with them. Returns the outcomes that count, including those already written. */
export async function ackAll(
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
    const ofKind = ofKindOf(name, recorded);
    if (ofKind.length > 0) await kind.ack?.(tx, ofKind);
    const written = [...ofKind, ...ofKindOf(name, before)];
    // Only after the commit: a transaction may run again.
    if (written.length > 0 && kind.written !== undefined) tx.onCommit(() => kind.written?.(written));
  }
  return [...recorded, ...before];
}

const ofKindOf = (kind: string, finished: readonly Finished[]): FinishedJob[] =>
  finished
    .filter(({ claimed }) => claimed.job.kind === kind)
    .map(({ claimed, outcome }) => ({ job: claimed.job, outcome }));

/**
 * After a kind's `ack` threw: writes the outcomes one by one, so that one bad job does not block the others. A job whose own write
 * fails becomes `failed`: run again, it would have its effect again and fail again. Errors: those of the store.
 */
export async function ackSingly(
  store: Store,
  kinds: ReadonlyMap<string, JobKind>,
  finished: readonly Finished[],
  now: number,
  log: Log,
): Promise<Finished[]> {
  const recorded: Finished[] = [];
  for (const one of finished) {
    try {
      recorded.push(...(await store.write((tx) => ackAll(tx, kinds, [one], now))));
    } catch (error) {
      if (isStoreError(error)) throw error;
      const { kind, key } = one.claimed.job;
      log.error({ kind, key, error: messageOf(error) }, 'the outcome of a job could not be written by its kind');
      const outcome: JobOutcome = { kind: 'failed', error: `JOB_ACK_FAILED: ${messageOf(error)}` };
      recorded.push(...(await store.write((tx) => recordOutcomes(tx, [{ ...one, outcome }], now))));
    }
  }
  return recorded;
}

/** A finished attempt. */
export interface Finished {
  readonly claimed: ClaimedJob;
  readonly outcome: JobOutcome;
  /** A write of it failed, and may have been committed nevertheless. */
  readonly isUnsure?: true;
}

const ACKS = {
  'ack done': sqlChange(OUTBOX['ack done']),
  'ack failed': sqlChange(OUTBOX['ack failed']),
  'ack discarded': sqlChange(OUTBOX['ack discarded']),
  'ack retry': sqlChange(OUTBOX['ack retry']),
  'ack held': sqlChange(OUTBOX['ack held']),
} as const satisfies Record<AckEvent, unknown>;
/** All outcomes are of running jobs, and written by one statement. */
const { isFrom: IS_RUNNING } = ACKS['ack done'];

const CASTS = ['bigint', 'integer', 'text', 'text', 'integer', 'integer', 'bigint', 'bigint', 'text'] as const;

/**
 * Writes the outcomes into their rows. Returns those that were written: where another process has claimed the job meanwhile, that
 * process' outcome counts.
 */
async function recordOutcomes(tx: StoreTx, finished: readonly Finished[], now: number): Promise<Finished[]> {
  const isUndone = ({ outcome }: Finished) => uncountedOf(outcome) === 'untouched';
  const undone = finished.filter(isUndone);
  const [first, second] = [
    await writeOutcomes(tx, undone.length === 0 ? finished : finished.filter((one) => !isUndone(one)), now, false),
    await writeOutcomes(tx, undone, now, true),
  ];
  return finished.filter(({ claimed }) => first.has(claimed.job.id) || second.has(claimed.job.id));
}

/**
 * One statement. `undone`: the claims are taken back, and a job whose block was rolled back loses its key with that. Only these assign the
 * key: an assignment writes the row's place in the index of keys again, whose order is random, even where the key stays.
 */
async function writeOutcomes(
  tx: StoreTx,
  finished: readonly Finished[],
  now: number,
  undone: boolean,
): Promise<ReadonlySet<number>> {
  if (finished.length === 0) return new Set();
  const parameters = createParameters(tx.dialect);
  const rows = padded<Finished | null>(finished, null).map((one, index) => {
    const values = one === null ? CASTS.map(() => null) : valuesOf(one, now);
    const places = values.map((value) => parameters.add(value));
    // Types of the first row are those of all.
    return `(${(index === 0 ? places.map((place, column) => `cast(${place} as ${CASTS[column]})`) : places).join(',')})`;
  });
  const end = undone
    ? `claims = outbox.claims - 1, ${endOfClaim('true', parameters.add(now), { state: 'v.state', holdReason: 'v.hold_reason', finishedAt: 'v.finished_at', error: 'v.error' })}`
    : 'state = v.state, hold_reason = v.hold_reason, is_forked = 0, finished_at = v.finished_at, error = v.error';
  const text = `with v(id, claims, state, hold_reason, attempts, lane, run_at, finished_at, error) as (values ${rows.join(',')})
    update outbox set attempts = v.attempts, lane = v.lane, run_at = coalesce(v.run_at, outbox.run_at),
      lease_until = null, owner = null, ${end}
    from v where outbox.id = v.id and outbox.claims = v.claims and outbox.${IS_RUNNING} returning outbox.id as id`;
  return new Set((await query<{ readonly id: number }>(tx.db, text, parameters)).map(({ id }) => id));
}

/**
 * The outcomes whose write seemed to fail but was committed: one attempt more is counted, and no claim was lost meanwhile,
 * so no other process can have counted it.
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
  const isFinal = outcome.kind !== 'retry' && outcome.kind !== 'held';
  return [
    claimed.job.id,
    claimed.claim,
    ACKS[`ack ${outcome.kind}`].to,
    outcome.kind === 'held' ? outcome.reason : null,
    attempts,
    isUncounted ? claimed.lane : laneOf(attempts),
    outcome.kind === 'retry' ? Math.trunc(outcome.runAt) : null,
    isFinal ? now : null,
    outcome.kind === 'done' || outcome.kind === 'held' ? null : outcome.error,
  ];
}

/** Whether the store itself failed, rather than what was asked of it. */
export function isStoreError(error: unknown): boolean {
  const code = (error as { readonly code?: unknown } | null)?.code;
  return (
    typeof code === 'string' && code.startsWith('STORE_') && code !== 'STORE_CONFLICT' && code !== 'STORE_CONSTRAINT'
  );
}

/** Whether a retry may succeed. */
export function isTransientStoreError(error: unknown): boolean {
  return isStoreError(error) && (error as { readonly retryable?: unknown }).retryable === true;
}
