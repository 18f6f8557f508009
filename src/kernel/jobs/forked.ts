import type { StoreTx } from '../../ports/store.ts';
import { createParameters, type Parameters, query } from './statement.ts';

/** Why jobs of a block that was rolled back are over; their keys are free again. */
export const FORKED = 'forked';
/** The same of jobs that were claimed at that moment: whether they were begun shows when their claim ends. */
const MAYBE = 'forked while claimed';
const FREED_KEY = "outbox.key || '#forked#' || outbox.id";

/** For rows whose claim ends with nothing done: whether their block is gone, so that they are over as well. */
const isGone = `outbox.claims = 1 and outbox.error = '${MAYBE}'`;

/**
 * Columns of a claim that ends. `undone`: condition, in SQL, for one with which nothing was done; `now`: placeholder of a time; the others
 * are the values where the block still stands.
 */
export function endOfClaim(
  undone: string,
  now: string,
  values: { readonly state: string; readonly finishedAt: string; readonly error: string },
): string {
  const gone = `${undone} and ${isGone}`;
  return `state = case when ${gone} then 'discarded' else ${values.state} end,
    finished_at = case when ${gone} then cast(${now} as bigint) else ${values.finishedAt} end,
    error = case when ${gone} then '${FORKED}' else ${values.error} end,
    key = case when ${gone} then ${FREED_KEY} else outbox.key end`;
}

export interface ForkedRange {
  readonly kind: string;
  readonly fromSlot: number;
  /** Inclusive. */
  readonly toSlot: number;
  readonly groups?: readonly string[];
}

/** Written out, because a partial index is only found by its very condition. */
const UNTRIED = "claims = 0 and state in ('pending', 'held')";
const FIRST_CLAIM = "state = 'running' and claims = 1";

/**
 * Discards the jobs of blocks that were rolled back, unless they were begun, and marks those that are claimed for the first time. Where
 * others write beside this it is one statement, which sees a row that is claimed, or whose claim ends, as it is then.
 */
export async function discardForked(tx: StoreTx, range: ForkedRange, now: number): Promise<number> {
  const pieces = tx.dialect === 'sqlite' ? [[UNTRIED], [FIRST_CLAIM]] : [[UNTRIED, FIRST_CLAIM]];
  let discarded = 0;
  if (range.groups?.length === 0) return discarded;
  for (const conditions of pieces) {
    const parameters = createParameters(tx.dialect);
    const at = parameters.add(now);
    const where = conditions.map((condition) => `(${condition} and ${inRange(range, parameters)})`);
    const text = `update outbox set
        state = case when claims = 0 then 'discarded' else state end,
        finished_at = case when claims = 0 then cast(${at} as bigint) else finished_at end,
        error = case when claims = 0 then '${FORKED}' else '${MAYBE}' end,
        key = case when claims = 0 then ${FREED_KEY} else key end
      where ${where.join(' or ')} returning claims`;
    const rows = await query<{ readonly claims: number }>(tx.db, text, parameters);
    discarded += rows.filter(({ claims }) => Number(claims) === 0).length;
  }
  return discarded;
}

function inRange({ kind, fromSlot, toSlot, groups }: ForkedRange, { add }: Parameters): string {
  // Not by the index of the kind, which has every row there is.
  const base = `slot >= ${add(fromSlot)} and slot <= ${add(toSlot)} and kind || '' = ${add(kind)}`;
  return groups === undefined ? base : `${base} and grp in (${groups.map(add).join(',')})`;
}

/** The event of a job is in another block now: SQL of its `error`. */
export const withoutMark = `case when error = '${MAYBE}' then null else error end`;
