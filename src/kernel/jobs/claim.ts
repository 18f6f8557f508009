import type { StoreTx } from '../../ports/store.ts';
import type { Job, JobKind } from '../plugin.ts';
import { type Candidate, chooseJobs, groupKey, type Room } from './choose.ts';
import { type DueQuestion, findDue, type GroupWalk } from './find-due.ts';
import { createParameters, padded, query } from './statement.ts';

/** A job with a lease of this process. */
export interface ClaimedJob {
  readonly job: Job;
  readonly lane: 0 | 1;
  /** Token of the claim: an outcome is only recorded while it is still the row's. */
  readonly claim: number;
  /** Unix milliseconds: since when it was due. */
  readonly runAt: number;
}

/** Free slots of this process, and its memory of who was served. */
export interface ClaimRoom {
  readonly total: number;
  kind(kind: string): number;
  readonly slow: number;
  slowOfKind(kind: string): number;
  lastServed(kind: string, group: string): number;
}

export interface ClaimOptions {
  readonly kinds: ReadonlyMap<string, JobKind>;
  readonly room: ClaimRoom;
  readonly walk: GroupWalk;
  readonly now: number;
}

/** A job that its process does not finish within its time and this is taken to be lost. */
export const LEASE_EXTRA_MS = 30_000;

/** Any number: processes that share a database agree on it. */
const CLAIM_LOCK = 7_036_874_417;
const LEAST_WINDOW = 64;
const WINDOW_PER_SLOT = 2;

export interface Claim {
  readonly jobs: readonly ClaimedJob[];
  /** Whether due rows were left because of a limit, or because all room was used. */
  readonly isMoreDue: boolean;
}

/** Gives due jobs a lease, within all limits. The transaction of the caller makes it one step. */
export async function claimJobs(tx: StoreTx, options: ClaimOptions): Promise<Claim> {
  const { kinds, room, walk, now } = options;
  const questions = questionsOf(kinds, room);
  if (room.total <= 0 || questions.length === 0) return { jobs: [], isMoreDue: false };
  if (tx.dialect === 'postgres') {
    // One process at a time, so that the limits of groups hold over all of them.
    const parameters = createParameters(tx.dialect);
    await query(tx.db, `select pg_advisory_xact_lock(${parameters.add(CLAIM_LOCK)})`, parameters);
  }
  const window = Math.max(LEAST_WINDOW, WINDOW_PER_SLOT * room.total);
  const full = await fullRoom(tx, kinds, room);
  const due = await findDue(tx, questions, walk, { now, window, wanted: room.total, running: full.running });
  if (due.length === 0) return { jobs: [], isMoreDue: false };
  const chosen = chooseJobs(due, full);
  return { jobs: await lease(tx, chosen, kinds, now), isMoreDue: due.length > chosen.length };
}

function questionsOf(kinds: ReadonlyMap<string, JobKind>, room: ClaimRoom): DueQuestion[] {
  return [...kinds.keys()]
    .filter((kind) => room.kind(kind) > 0)
    .flatMap((kind) => {
      const isSlowFree = room.slow > 0 && room.slowOfKind(kind) > 0;
      return isSlowFree ? [{ kind, lane: 0 } as const, { kind, lane: 1 } as const] : [{ kind, lane: 0 } as const];
    });
}

/** Adds what runs in each group, in all processes. */
async function fullRoom(tx: StoreTx, kinds: ReadonlyMap<string, JobKind>, room: ClaimRoom): Promise<Room> {
  const parameters = createParameters(tx.dialect);
  // The condition on the lease is always true: it leads to the small index of running rows, and "group by" would lead away from it.
  const text = `select kind, grp from outbox where state = 'running' and lease_until > 0`;
  const counts = new Map<string, number>();
  for (const { kind, grp } of await query<{ readonly kind: string; readonly grp: string }>(tx.db, text, parameters)) {
    const key = groupKey(kind, grp);
    counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  const running = (kind: string, group: string) => counts.get(groupKey(kind, group)) ?? 0;
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
  readonly run_at: number;
  readonly created_at: number;
}

const RETURNED = 'id, kind, key, grp, payload, slot, lane, attempts, claims, run_at, created_at';

async function lease(
  tx: StoreTx,
  chosen: readonly Candidate[],
  kinds: ReadonlyMap<string, JobKind>,
  now: number,
): Promise<ClaimedJob[]> {
  const byId = new Map<number, ClaimedJob>();
  for (const [name, kind] of kinds) {
    const ids = chosen.filter((row) => row.kind === name).map(({ id }) => id);
    if (ids.length === 0) continue;
    const parameters = createParameters(tx.dialect);
    const until = parameters.add(now + kind.timeoutMs + LEASE_EXTRA_MS);
    const list = padded<number | null>(ids, null).map((id) => parameters.add(id));
    // Rows that an owner is changing at this moment are left to it.
    const free =
      tx.dialect === 'postgres'
        ? `(select id from outbox where id in (${list.join(',')}) and state = 'pending' for update skip locked)`
        : `(${list.join(',')}) and state = 'pending'`;
    const text = `update outbox set state = 'running', claims = claims + 1, lease_until = ${until}
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
    },
    lane: row.lane === 0 ? 0 : 1,
    claim: row.claims,
    runAt: row.run_at,
  };
}
