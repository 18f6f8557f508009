import type { Job, JobKind } from '../plugin/plugin.ts';
import type { StoreTx } from '../ports/store.ts';
import { chooseJobs, type DueJob, type DueQuestion, findDue, type GroupWalk, groupKey, type Room } from './due.ts';
import { createParameters, ONCE_LANE, type Parameters, padded, query } from './table.ts';
import { OUTBOX, sqlChange } from './transitions.ts';

/** A job with a lease of this process. */
export interface ClaimedJob {
  readonly job: Job;
  readonly lane: 0 | 1;
  /** Token of the claim: an outcome is only recorded while it is still the row's. */
  readonly claim: number;
  /** Unix milliseconds at which it was due. */
  readonly runAt: number;
  /** Earlier claims that ended without an outcome. */
  readonly lost: number;
}

/** Free slots of this process, and when it served each group last. */
export interface ClaimRoom {
  readonly total: number;
  kind(kind: string): number;
  readonly slow: number;
  slowOfKind(kind: string): number;
  lastServed(kind: string, group: string): number;
}

interface ClaimOptions {
  readonly kinds: ReadonlyMap<string, JobKind>;
  readonly room: ClaimRoom;
  readonly ahead: AheadRoom;
  readonly walk: GroupWalk;
  readonly now: number;
  /** Name of this process; null where other processes could not see that it ended. */
  readonly owner: string | null;
}

/** Added to the time limit of a kind: a job whose process has not finished it by then counts as lost. */
export const LEASE_EXTRA_MS = 30_000;

/** Lease of a job of this kind. */
export const leaseMsOf = ({ leaseMs, timeoutMs }: JobKind): number => leaseMs ?? timeoutMs + LEASE_EXTRA_MS;

/** How long a job that was claimed ahead may wait for its slot; its lease is longer by this time. */
export const AHEAD_WAIT_MS = 5_000;

/** Arbitrary: the same in all processes on one database. */
const CLAIM_LOCK = 7_036_874_417;
const MIN_WINDOW = 64;
const WINDOW_PER_SLOT = 2;

export interface Claim {
  /** To be run at once. */
  readonly jobs: readonly ClaimedJob[];
  /** To be run as soon as a slot is free and their group's limit allows it. */
  readonly ahead: readonly ClaimedJob[];
  /** Whether due rows were left because of a limit, or because all room was used. */
  readonly isMoreDue: boolean;
}

const NOTHING: Claim = { jobs: [], ahead: [], isMoreDue: false };

/** Gives due jobs a lease, within all limits. The transaction of the caller makes it one step. */
export async function claimJobs(tx: StoreTx, options: ClaimOptions): Promise<Claim> {
  const { kinds, room, ahead, walk, now, owner } = options;
  const wanted = room.total + ahead.total;
  const questions = questionsOf(kinds, room, ahead);
  if (wanted <= 0 || questions.length === 0) return NOTHING;
  if (tx.dialect === 'postgres') {
    // One process at a time, so that the limits of groups hold over all of them.
    const parameters = createParameters(tx.dialect);
    await query(tx.db, `select pg_advisory_xact_lock(${parameters.add(CLAIM_LOCK)})`, parameters);
  }
  const window = Math.max(MIN_WINDOW, WINDOW_PER_SLOT * wanted);
  const held = await heldRows(tx, ahead);
  const full = fullRoom(kinds, room, held.all);
  const due = await findDue(tx, questions, walk, { now, window, wanted, running: full.running, group: full.group });
  if (due.length === 0) return NOTHING;
  const chosen = chooseJobs(due, full);
  const later = chooseAhead(due, chosen, { kinds, room: full, ahead, others: held.others });
  const until = now + (later.length > 0 ? AHEAD_WAIT_MS : 0);
  const leased = await lease(tx, [...chosen, ...later], kinds, { now: until, owner });
  const first = new Set(chosen.map(({ id }) => id));
  return {
    jobs: leased.filter(({ job }) => first.has(job.id)),
    ahead: leased.filter(({ job }) => !first.has(job.id)),
    isMoreDue: due.length > chosen.length + later.length,
  };
}

function questionsOf(kinds: ReadonlyMap<string, JobKind>, room: ClaimRoom, ahead: AheadRoom): DueQuestion[] {
  return [...kinds.keys()].flatMap((kind) => {
    const isFree = room.total > 0 && room.kind(kind) > 0;
    const fast = isFree || (ahead.total > 0 && ahead.kind(kind) > 0) ? [{ kind, lane: 0 } as const] : [];
    const isSlowFree = isFree && room.slow > 0 && room.slowOfKind(kind) > 0;
    return isSlowFree ? [...fast, { kind, lane: 1 } as const] : fast;
  });
}

/** Rows with a lease in each group: of all processes, and of the others. */
async function heldRows(tx: StoreTx, ahead: AheadRoom) {
  const parameters = createParameters(tx.dialect);
  // The condition on the lease is always true: it selects the small index of running rows, which "group by" would not.
  const text = `select id, claims, kind, grp from outbox where state = 'running' and lease_until > 0`;
  type Held = { readonly id: number; readonly claims: number; readonly kind: string; readonly grp: string };
  const all = new Map<string, number>();
  const others = new Map<string, number>();
  for (const { id, claims, kind, grp } of await query<Held>(tx.db, text, parameters)) {
    const key = groupKey(kind, grp);
    all.set(key, (all.get(key) ?? 0) + 1);
    if (!ahead.isOwn(id, claims)) others.set(key, (others.get(key) ?? 0) + 1);
  }
  return { all, others };
}

function fullRoom(kinds: ReadonlyMap<string, JobKind>, room: ClaimRoom, held: ReadonlyMap<string, number>): Room {
  const running = (kind: string, group: string) => held.get(groupKey(kind, group)) ?? 0;
  return {
    total: room.total,
    kind: room.kind,
    slow: room.slow,
    slowOfKind: room.slowOfKind,
    lastServed: room.lastServed,
    running,
    group: (kind, group) => {
      const limit = kinds.get(kind)?.groupConcurrency?.(group) ?? Number.POSITIVE_INFINITY;
      return limit - running(kind, group);
    },
  };
}

interface ClaimedRow {
  readonly id: number;
  readonly kind: string;
  readonly key: string;
  readonly grp: string;
  readonly payload: string;
  readonly slot: number | null;
  readonly lane: number;
  readonly attempts: number;
  readonly claims: number;
  readonly lost: number;
  readonly run_at: number;
  readonly created_at: number;
}

const CLAIM = sqlChange(OUTBOX.claim);
const RETURNED = 'id, kind, key, grp, payload, slot, lane, attempts, claims, lost, run_at, created_at';

async function lease(
  tx: StoreTx,
  chosen: readonly DueJob[],
  kinds: ReadonlyMap<string, JobKind>,
  { now, owner }: Pick<ClaimOptions, 'now' | 'owner'>,
): Promise<ClaimedJob[]> {
  const byId = new Map<number, ClaimedJob>();
  for (const [name, kind] of kinds) {
    const ids = chosen.filter((row) => row.kind === name).map(({ id }) => id);
    if (ids.length === 0) continue;
    const parameters = createParameters(tx.dialect);
    const until = parameters.add(now + leaseMsOf(kind));
    // Null without an owner.
    const mark = `cast(${parameters.add(owner)} as text) || ':' || (claims + 1)`;
    const list = padded<number | null>(ids, null).map((id) => parameters.add(id));
    // Rows that the outbox' owner is changing at this moment are skipped.
    const free =
      tx.dialect === 'postgres'
        ? `(select id from outbox where id in (${list.join(',')}) and ${CLAIM.isFrom} for update skip locked)`
        : `(${list.join(',')}) and ${CLAIM.isFrom}`;
    const text = `update outbox set state = ${CLAIM.literal}, claims = claims + 1, lease_until = ${until}, owner = ${mark}
      where id in ${free} returning ${RETURNED}`;
    for (const row of await query<ClaimedRow>(tx.db, text, parameters)) byId.set(row.id, claimedOf(row));
  }
  return chosen.flatMap(({ id }) => byId.get(id) ?? []);
}

function claimedOf(row: ClaimedRow): ClaimedJob {
  return {
    job: {
      id: row.id,
      kind: row.kind,
      key: row.key,
      group: row.grp,
      payload: JSON.parse(row.payload),
      slot: row.slot,
      attempts: row.attempts,
      createdAt: row.created_at,
      once: row.lane === ONCE_LANE && row.attempts === 0,
      again: row.claims > 1,
    },
    lane: row.lane === 0 ? 0 : 1,
    claim: row.claims,
    runAt: row.run_at,
    lost: row.lost,
  };
}

/** Ids and claim tokens as a list of values: a row that another process has claimed meanwhile has another token. */
export function claimRows(jobs: readonly ClaimedJob[], parameters: Parameters): string {
  const rows = padded<ClaimedJob | null>(jobs, null).map((one) => {
    const id = parameters.add(one?.job.id ?? null);
    return `(cast(${id} as bigint), cast(${parameters.add(one?.claim ?? null)} as integer))`;
  });
  return rows.join(',');
}

/** Room for jobs that are claimed before a slot is free for them. Why, and within which limits: README.md, "Claim-ahead". */
export interface AheadRoom {
  readonly total: number;
  /** Part of `total`, for groups of which this process holds nothing. */
  readonly reserved: number;
  kind(kind: string): number;
  /** Whether a running row is one of this process. */
  isOwn(id: number, claim: number): boolean;
}

interface AheadOptions {
  readonly kinds: ReadonlyMap<string, JobKind>;
  readonly room: Room;
  readonly ahead: AheadRoom;
  /** What other processes hold of each group. */
  readonly others: ReadonlyMap<string, number>;
}

/** A group holds at most this many times its limit ahead. */
const AHEAD_PER_LIMIT = 8;

/** Chooses the due rows to claim although they cannot start now: README.md, "Claim-ahead". */
function chooseAhead(due: readonly DueJob[], chosen: readonly DueJob[], options: AheadOptions): DueJob[] {
  const { kinds, room, ahead, others } = options;
  if (ahead.total <= 0) return [];
  const taken = new Set(chosen);
  const rest = due.filter((row) => row.lane === 0 && row.isOrdered !== true && !taken.has(row));
  if (rest.length === 0) return [];
  const added = new Map<string, number>();
  for (const { kind, group } of chosen) {
    const key = groupKey(kind, group);
    added.set(key, (added.get(key) ?? 0) + 1);
  }
  const heldOf = (kind: string, group: string) => room.running(kind, group) + (added.get(groupKey(kind, group)) ?? 0);
  const groupRoom = (kind: string, group: string) => {
    if (others.has(groupKey(kind, group)) || kinds.get(kind)?.groupAhead?.(group) === false) return 0;
    const limit = kinds.get(kind)?.groupConcurrency?.(group) ?? Number.POSITIVE_INFINITY;
    return limit <= 0 ? 0 : limit * (1 + AHEAD_PER_LIMIT) - heldOf(kind, group);
  };
  const pick = (rows: readonly DueJob[], total: number, group: Room['group']) =>
    chooseJobs(rows, { ...room, total, kind: ahead.kind, slow: 0, running: heldOf, group });

  // Groups that wait for their first slot come first, and have reserved room.
  const isNew = ({ kind, group }: DueJob) => heldOf(kind, group) === 0;
  const first = pick(rest.filter(isNew), ahead.total, (kind, group) => Math.min(1, groupRoom(kind, group)));
  const left = ahead.total - Math.max(first.length, ahead.reserved);
  if (left <= 0) return first;
  const firsts = new Set(first);
  const ofKind = (kind: string) => first.filter((row) => row.kind === kind).length;
  const second = chooseJobs(
    rest.filter((row) => !firsts.has(row)),
    {
      ...room,
      total: left,
      kind: (kind) => ahead.kind(kind) - ofKind(kind),
      slow: 0,
      running: heldOf,
      group: (kind, group) =>
        groupRoom(kind, group) - first.filter((row) => row.kind === kind && row.group === group).length,
    },
  );
  return [...first, ...second];
}
