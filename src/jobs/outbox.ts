import { sql } from 'kysely';
import { inList } from '../lib/in-list.ts';
import type { NewJob } from '../plugin/plugin.ts';
import type { Clock } from '../ports/clock.ts';
import type { JobState, Outbox, OutboxChange, OutboxFilter, OutboxRow } from '../ports/outbox.ts';
import type { Queries, SqlValue, Store, StoreTx } from '../ports/store.ts';
import {
  createParameters,
  type JobTables,
  jobTables,
  laneOf,
  ONCE_LANE,
  type OutboxTable,
  type Parameters,
  query,
} from './table.ts';
import { OUTBOX, type OutboxEvent, sqlChange } from './transitions.ts';

const DEFAULT_PAGE = 50;
const LONGEST_PAGE = 1_000;
const MAX_CHANGED = 10_000;
const MAX_COUNTED = 1_000_000;
const PRUNE_BATCH = 1_000;
const STATES: readonly JobState[] = ['pending', 'running', 'done', 'failed', 'discarded', 'held'];

const CHANGES = {
  requeue: sqlChange(OUTBOX.requeue),
  hasten: sqlChange(OUTBOX.hasten),
  hold: sqlChange(OUTBOX.hold),
  release: sqlChange(OUTBOX.release),
  discard: sqlChange(OUTBOX.discard),
  'finish done': sqlChange(OUTBOX['finish done']),
  'finish failed': sqlChange(OUTBOX['finish failed']),
} as const satisfies Partial<Record<OutboxEvent, unknown>>;
const TAKE = sqlChange(OUTBOX.take);
const RETURN_TAKEN = sqlChange(OUTBOX['return taken']);
const ROLL_BACK = sqlChange(OUTBOX['roll back']);
const FORKED = sqlChange(OUTBOX['give back, rolled back']);

interface OutboxOptions {
  readonly store: Store;
  readonly clock: Clock;
  /** Called after commits that make rows due. */
  readonly wake: () => void;
}

/** The outbox as its owners, the plugins, use it. */
class StoredOutbox implements Outbox {
  private readonly options: OutboxOptions;

  constructor(options: OutboxOptions) {
    this.options = options;
  }

  /** Changes rows that match and are in a state in which the event may come, oldest first. */
  private async update(
    tx: StoreTx,
    change: OutboxChange,
    event: keyof typeof CHANGES,
    others: Partial<Omit<OutboxTable, 'state'>>,
    where: { readonly isForked?: false; readonly dueAfter?: number } = {},
  ): Promise<number> {
    const { from, to } = CHANGES[event];
    const states = from.filter((state) => change.states === undefined || change.states.includes(state));
    if (states.length === 0 || change.ids?.length === 0 || change.keys?.length === 0) return 0;
    const db = jobTables(tx.db);
    let rows = select(db, { ...change, states });
    if (where.isForked === false) rows = rows.where('is_forked', '=', 0);
    if (where.dueAfter !== undefined) rows = rows.where('run_at', '>', where.dueAfter);
    const ids = rows
      .select('id')
      .orderBy('id')
      .limit(Math.min(change.limit ?? MAX_CHANGED, MAX_CHANGED));
    // The state is compared again behind the lock of each row: another process may have claimed it meanwhile.
    const { numUpdatedRows } = await db
      .updateTable('outbox')
      .set({ ...others, state: to })
      .where('id', 'in', ids)
      .where('state', 'in', states)
      .executeTakeFirst();
    const changed = Number(numUpdatedRows);
    if (changed > 0 && to === 'pending') tx.onCommit(this.options.wake);
    return changed;
  }

  readonly list: Outbox['list'] = async (filter, { beforeId, afterId, limit = DEFAULT_PAGE, tx } = {}) => {
    let query = select(jobTables(tx?.db ?? this.options.store.read), filter).selectAll();
    if (beforeId !== undefined) query = query.where('id', '<', beforeId);
    if (afterId !== undefined) query = query.where('id', '>', afterId);
    const rows = await query
      .orderBy('id', afterId === undefined ? 'desc' : 'asc')
      .limit(Math.min(Math.max(1, limit), LONGEST_PAGE))
      .execute();
    return rows.map(rowOf);
  };

  readonly get: Outbox['get'] = async (kind, key) => {
    const row = await select(jobTables(this.options.store.read), { kind, keys: [key] })
      .selectAll()
      .executeTakeFirst();
    return row === undefined ? null : rowOf(row);
  };

  readonly existing: Outbox['existing'] = async (tx, kind, keys) => {
    const found = jobTables(tx.db).selectFrom('outbox').select('key').where('kind', '=', kind);
    const rows = await found.where(inList(tx.dialect, 'key', keys)).execute();
    return new Set(rows.map(({ key }) => key));
  };

  readonly count: Outbox['count'] = async (filter, { atMost = MAX_COUNTED, tx } = {}) => {
    const db = jobTables(tx?.db ?? this.options.store.read);
    if (filter.states === undefined) return await countRows(db, select(db, filter), atMost);
    const { states, ...rest } = filter;
    let sum = 0;
    for (const state of new Set(states)) {
      if (sum < atMost) sum += await countRows(db, ofState(select(db, rest), state), atMost - sum);
    }
    return sum;
  };

  readonly total: Outbox['total'] = async ({ states = STATES, ...rest }, member, { tx } = {}) => {
    const db = jobTables(tx?.db ?? this.options.store.read);
    const number =
      this.options.store.dialect === 'sqlite'
        ? sql<number | string | null>`sum(json_extract(payload, ${`$.${member}`}))`
        : sql<number | string | null>`sum((payload::json->>${member})::bigint)`;
    const all = { rows: 0, sum: 0 };
    for (const state of new Set(states)) {
      const found = await ofState(select(db, rest), state)
        .select(({ fn }) => [fn.countAll<number>().as('rows'), number.as('sum')])
        .executeTakeFirstOrThrow();
      all.rows += Number(found.rows);
      all.sum += Number(found.sum ?? 0);
    }
    return all;
  };

  readonly requeue: Outbox['requeue'] = (tx, change, { runAt = this.options.clock.now(), once = false } = {}) => {
    const fresh = { attempts: 0, lost: 0, finished_at: null, error: null };
    const values = { ...fresh, lane: once ? ONCE_LANE : 0, run_at: Math.trunc(runAt) };
    return this.update(tx, change, 'requeue', values, { isForked: false });
  };

  readonly hasten: Outbox['hasten'] = (tx, change) => {
    const now = this.options.clock.now();
    return this.update(tx, change, 'hasten', { run_at: now }, { dueAfter: now });
  };

  readonly unfinished: Outbox['unfinished'] = async (kind, groups) => {
    const found = new Map<string, { waiting: number; held: number; nextAt: number | null }>();
    if (groups.length === 0) return found;
    for (const state of ['pending', 'running', 'held'] as const) {
      const rows = await ofState(
        jobTables(this.options.store.read).selectFrom('outbox').where('kind', '=', kind),
        state,
      )
        .where(inList(this.options.store.dialect, 'grp', groups))
        .groupBy('grp')
        .select(({ fn }) => ['grp', fn.countAll<number>().as('rows'), fn.min('run_at').as('nextAt')])
        .execute();
      for (const { grp, rows: count, nextAt } of rows) {
        const one = found.get(grp) ?? { waiting: 0, held: 0, nextAt: null };
        found.set(grp, one);
        if (state === 'held') one.held += Number(count);
        else one.waiting += Number(count);
        if (state === 'pending') one.nextAt = Number(nextAt);
      }
    }
    return found;
  };

  readonly hold: Outbox['hold'] = (tx, change, reason) =>
    this.update(tx, change, 'hold', { hold_reason: reason, error: null });

  readonly take: Outbox['take'] = async (tx, { kind, group, limit }, reason) => {
    const db = jobTables(tx.db);
    let due = select(db, { kind, group })
      .where(sql.raw<boolean>(TAKE.isFrom))
      .where('lane', '=', 0)
      .where('attempts', '=', 0)
      .where('run_at', '<=', this.options.clock.now())
      .selectAll()
      .orderBy(sql`coalesce(position, 0)`)
      .orderBy('id')
      .limit(limit);
    // Rows that are being claimed at this moment are skipped.
    if (tx.dialect === 'postgres') due = due.forUpdate().skipLocked();
    const rows = await due.execute();
    const ids = rows.map(({ id }) => id);
    if (ids.length > 0)
      await db
        .updateTable('outbox')
        .set((row) => ({ state: TAKE.to, hold_reason: reason, claims: row('claims', '+', 1) }))
        .where('id', 'in', ids)
        .execute();
    return rows.map((row) => rowOf({ ...row, state: TAKE.to, hold_reason: reason }));
  };

  readonly giveBack: Outbox['giveBack'] = async (tx, { kind, ids }, reason) => {
    if (ids.length === 0) return;
    await jobTables(tx.db)
      .updateTable('outbox')
      .set((row) => ({ state: RETURN_TAKEN.to, hold_reason: null, claims: row('claims', '-', 1) }))
      .where('kind', '=', kind)
      .where('id', 'in', [...ids])
      .where('state', 'in', RETURN_TAKEN.from)
      .where('hold_reason', '=', reason)
      .execute();
    tx.onCommit(this.options.wake);
  };

  readonly finish: Outbox['finish'] = (tx, change, end) =>
    this.update(tx, change, `finish ${end.state}`, {
      hold_reason: null,
      finished_at: this.options.clock.now(),
      error: end.state === 'failed' ? end.error : null,
    });

  readonly release: Outbox['release'] = (tx, change, { attempts } = {}) => {
    const counted = attempts === undefined ? {} : { attempts, lane: laneOf(attempts) };
    const released = { hold_reason: null, run_at: this.options.clock.now(), error: null };
    return this.update(tx, change, 'release', { ...released, ...counted });
  };

  readonly discard: Outbox['discard'] = (tx, change, reason) =>
    this.update(tx, change, 'discard', { hold_reason: null, finished_at: this.options.clock.now(), error: reason });

  readonly discardUntried: Outbox['discardUntried'] = (tx, range) => discardForked(tx, range, this.options.clock.now());

  readonly moveSlot: Outbox['moveSlot'] = async (tx, kind, keys, slot) => {
    if (keys.length === 0) return 0;
    const query = jobTables(tx.db).updateTable('outbox').set({ slot, is_forked: 0 });
    const { numUpdatedRows } = await query
      .where('kind', '=', kind)
      .where(inList(tx.dialect, 'key', keys))
      .executeTakeFirst();
    return Number(numUpdatedRows);
  };

  readonly prune: Outbox['prune'] = async (tx, { kind, state, finishedBefore, limit = PRUNE_BATCH }) => {
    if (!(state in OUTBOX.prune)) return [];
    const db = jobTables(tx.db);
    const ids = db
      .selectFrom('outbox')
      .select('id')
      .where('kind', '=', kind)
      .where('state', '=', state)
      .where('finished_at', '<', finishedBefore)
      .orderBy('finished_at')
      .limit(limit);
    const rows = await db.deleteFrom('outbox').where('id', 'in', ids).returning(['id', 'key', 'payload']).execute();
    return rows.map((row) => ({ ...row, payload: JSON.parse(row.payload) as unknown }));
  };
}

export const createOutbox = (options: OutboxOptions): Outbox => new StoredOutbox(options);

function select(db: Queries<JobTables>, filter: OutboxFilter) {
  let query = db.selectFrom('outbox').where('kind', '=', filter.kind);
  if (filter.group !== undefined) query = query.where('grp', '=', filter.group);
  if (filter.ids !== undefined) query = query.where('id', 'in', [...filter.ids]);
  if (filter.keys !== undefined) query = query.where('key', 'in', [...filter.keys]);
  if (filter.states !== undefined) query = query.where('state', 'in', [...filter.states]);
  if (filter.reason !== undefined) query = query.where('hold_reason', '=', filter.reason);
  if (filter.createdFrom !== undefined) query = query.where('created_at', '>=', filter.createdFrom);
  if (filter.createdBefore !== undefined) query = query.where('created_at', '<', filter.createdBefore);
  return query;
}

type Selection = ReturnType<typeof select>;

/** One state at a time and written out, because a partial index is only found by its very condition. */
function ofState(query: Selection, state: JobState): Selection {
  const found = query.where(sql<boolean>`state = ${sql.lit(state)}`);
  // True for all rows: these select the index of the state.
  if (state === 'pending') return found.where('lane', 'in', [0, 1]);
  if (state === 'held') return found.where('run_at', '>=', 0);
  return state === 'running' ? found.where('lease_until', '>', 0) : found;
}

async function countRows(db: Queries<JobTables>, rows: Selection, atMost: number): Promise<number> {
  const { count } = await db
    .selectFrom(rows.select('id').limit(atMost).as('found'))
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .executeTakeFirstOrThrow();
  return count;
}

function rowOf(row: OutboxTable): OutboxRow {
  return {
    id: row.id,
    kind: row.kind,
    key: row.key,
    group: row.grp,
    payload: JSON.parse(row.payload),
    slot: row.slot,
    position: row.position,
    state: row.state,
    attempts: row.attempts,
    runAt: row.run_at,
    createdAt: row.created_at,
    finishedAt: row.finished_at,
    error: row.error,
    holdReason: row.hold_reason,
  };
}

const COLUMNS = [
  'kind',
  'key',
  'grp',
  'payload',
  'slot',
  'position',
  'state',
  'lane',
  'attempts',
  'claims',
  'lost',
  'run_at',
  'created_at',
  'hold_reason',
] as const;

/** Adds jobs to the running transaction; those whose (kind, key) exists are left out. Returns how many were added. */
export async function insertJobs(tx: StoreTx, jobs: readonly NewJob[], now: number): Promise<number> {
  const rows = jobs.map((job): SqlValue[] => [
    job.kind,
    job.key,
    job.group,
    JSON.stringify(job.payload) ?? 'null',
    job.slot ?? null,
    job.position ?? null,
    job.held === undefined ? OUTBOX.enqueue.none : OUTBOX['enqueue held'].none,
    0,
    0,
    0,
    0,
    Math.trunc(job.runAt ?? now),
    now,
    job.held ?? null,
  ]);
  return await tx.insertMany('outbox', COLUMNS, rows, 'ignore');
}

/** The key of a discarded job whose block was rolled back: the same event in another block makes a new job. */
const FREED_KEY = "outbox.key || '#forked#' || outbox.id";

/**
 * Columns of a claim that ends. A first claim with which nothing was done (`undone`, a condition in SQL) is discarded when its block was
 * rolled back meanwhile; `now` is the placeholder of a time, `values` apply to all other rows.
 */
export function endOfClaim(
  undone: string,
  now: string,
  values: { readonly state: string; readonly holdReason: string; readonly finishedAt: string; readonly error: string },
): string {
  const gone = `${undone} and outbox.claims = 1 and outbox.is_forked = 1`;
  return `state = case when ${gone} then ${FORKED.literal} else ${values.state} end,
    hold_reason = case when ${gone} then null else ${values.holdReason} end,
    is_forked = case when ${gone} then 1 else 0 end,
    finished_at = case when ${gone} then cast(${now} as bigint) else ${values.finishedAt} end,
    error = case when ${gone} then 'forked' else ${values.error} end,
    key = case when ${gone} then ${FREED_KEY} else outbox.key end`;
}

interface ForkedRange {
  readonly kind: string;
  readonly fromSlot: number;
  /** Inclusive. */
  readonly toSlot: number;
  readonly groups?: readonly string[];
}

/** Written out, because a partial index is only found by its very condition. */
const UNTRIED = `claims = 0 and ${ROLL_BACK.isFrom}`;
/** Only marked: what becomes of it is known when the claim ends. */
const FIRST_CLAIM = `${FORKED.isFrom} and claims = 1`;

/**
 * Discards the jobs of blocks that were rolled back, unless they were started, and marks those that are claimed for the first time. On
 * PostgreSQL, where others write at the same time, it is one statement: it sees each row before or after a claim, never between.
 */
async function discardForked(tx: StoreTx, range: ForkedRange, now: number): Promise<number> {
  const pieces = tx.dialect === 'sqlite' ? [[UNTRIED], [FIRST_CLAIM]] : [[UNTRIED, FIRST_CLAIM]];
  let discarded = 0;
  if (range.groups?.length === 0) return discarded;
  for (const conditions of pieces) {
    const parameters = createParameters(tx.dialect);
    const at = parameters.add(now);
    const where = conditions.map((condition) => `(${condition} and ${inRange(range, parameters)})`);
    const text = `update outbox set
        state = case when claims = 0 then ${ROLL_BACK.literal} else state end,
        finished_at = case when claims = 0 then cast(${at} as bigint) else finished_at end,
        hold_reason = null, is_forked = 1,
        error = case when claims = 0 then 'forked' else error end,
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
