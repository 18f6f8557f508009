import { messageOf } from '../lib/coded-error.ts';
import type { JobKind } from '../plugin/plugin.ts';
import type { Clock, Random } from '../ports/clock.ts';
import type { Owner } from '../ports/processes.ts';
import type { Dialect, Queries, Store, StoreTx } from '../ports/store.ts';
import type { Log } from '../ports/telemetry.ts';
import { AHEAD_WAIT_MS, type ClaimedJob, claimRows, leaseMsOf } from './claim.ts';
import type { JobMetrics } from './metrics.ts';
import { endOfClaim } from './outbox.ts';
import { change, createParameters, query } from './table.ts';
import { OUTBOX, sqlChange } from './transitions.ts';

interface SweeperOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly metrics: JobMetrics;
  readonly kinds: ReadonlyMap<string, JobKind>;
  readonly maxLost: () => number;
  readonly owner: Owner | null;
  readonly wake: () => void;
}

/** Returns jobs whose lease has expired, and repairs times that a long pause or a wrong clock left behind. */
interface Sweeper {
  /** Spreads overdue retries, fixes times in the future, returns expired leases; then repeats the latter two. */
  start(): Promise<void>;
  /** Records the wall clock at a moment of the monotonic one: it may have been ahead only between two sweeps. */
  saw(now: number, monotonicMs: number): void;
  stop(): Promise<void>;
}

const INTERVAL_MS = 30_000;
const SPREAD_OVER_MS = 30_000;
const SPREAD_BATCH = 5_000;

export function createSweeper(options: SweeperOptions): Sweeper {
  const { store, clock, random, log, metrics, kinds, maxLost, owner, wake } = options;
  const stopped = new AbortController();
  /** Short leases are swept as often as they may expire. */
  const intervalMs = Math.min(INTERVAL_MS, ...[...kinds.values()].map(({ leaseMs }) => leaseMs ?? INTERVAL_MS));
  let loop: Promise<void> = Promise.resolve();
  /** Wall clock minus monotonic, the maximum since the last sweep: it falls when the clock is set back. */
  let offsetMs = Number.POSITIVE_INFINITY;

  async function fixTimes(): Promise<void> {
    const now = clock.now();
    const before = offsetMs;
    const offset = now - clock.monotonic();
    const byMs = before - offset;
    const isSetBack = byMs > CLOCK_SKEW_MS;
    const count = await store.write(async (tx) => {
      const cut = await cutLeases(tx, kinds.values(), now);
      return cut + (await (isSetBack ? pullBack(tx, kinds.values(), now, byMs) : pullNew(tx, kinds.values(), now)));
    });
    offsetMs = offset;
    if (count === 0) return;
    log.warn({ jobs: count }, 'jobs planned by a clock ahead of this one are due again');
    wake();
  }

  async function sweep(): Promise<void> {
    await fixTimes();
    noteLost(await store.write((tx) => returnExpired(tx, clock.now(), maxLost())));
  }

  /** Returns the jobs of ended processes of this machine; those of other machines keep their leases. */
  async function sweepGone(): Promise<void> {
    const gone = (await ownersOfRunning(store.read, store.dialect)).filter((id) => owner?.isGone(id) === true);
    for (const id of gone) noteLost(await store.write((tx) => returnAbandoned(tx, id, maxLost())));
    owner?.forgetGone();
  }

  function noteLost(count: number): void {
    if (count === 0) return;
    metrics.lost(count);
    log.warn({ jobs: count }, 'jobs whose process ended without an outcome will run again');
    wake();
  }

  async function spread(): Promise<void> {
    const now = clock.now();
    let moved = SPREAD_BATCH;
    while (moved === SPREAD_BATCH) {
      moved = await store.write((tx) =>
        spreadOverdue(tx, { before: now, now, overMs: SPREAD_OVER_MS, limit: SPREAD_BATCH }),
      );
    }
  }

  /** Once per interval, at a random point within it, so that many processes do not sweep together. */
  async function keepSweeping(): Promise<void> {
    const sleep = (ms: number) => clock.sleep(ms, stopped.signal).catch(() => {});
    while (!stopped.signal.aborted) {
      const pointMs = Math.floor(random.float() * intervalMs);
      await sleep(pointMs);
      if (stopped.signal.aborted) return;
      await sweep()
        .then(sweepGone)
        .catch((error: unknown) => log.warn({ error: messageOf(error) }, 'the sweep of leases failed'));
      await sleep(intervalMs - pointMs);
    }
  }

  return {
    saw(now, monotonicMs) {
      offsetMs = Math.max(offsetMs, now - monotonicMs);
    },
    async start() {
      await sweep();
      await spread();
      // Only then: jobs that ran a moment ago are not overdue retries to spread.
      await sweepGone();
      loop = keepSweeping();
    },
    async stop() {
      stopped.abort(new Error('stopped'));
      await loop;
    },
  };
}

const GIVEN_AT_ONCE = 256;
const EXPIRED = sqlChange(OUTBOX['lease expired']);
const EXPIRED_TOO_OFTEN = sqlChange(OUTBOX['lease expired too often']);
const PROCESS_ENDED = sqlChange(OUTBOX['process ended']);
const GIVE_BACK = sqlChange(OUTBOX['give back']);
const LOST = 'the process that ran it ended without an outcome';

/**
 * Returns jobs whose lease has run out to `pending`; one that was lost `maxLost` times becomes `failed`, because it may be what crashes
 * the processes. Returns how many there were.
 */
async function returnExpired(tx: StoreTx, now: number, maxLost: number): Promise<number> {
  const parameters = createParameters(tx.dialect);
  const limit = parameters.add(maxLost);
  const text = `update outbox set state = case when lost + 1 >= ${limit} then ${EXPIRED_TOO_OFTEN.literal} else ${EXPIRED.literal} end,
      finished_at = case when lost + 1 >= ${parameters.add(maxLost)} then cast(${parameters.add(now)} as bigint) end,
      lost = lost + 1, is_forked = 0, lease_until = null, owner = null, error = '${LOST}'
    where ${EXPIRED.isFrom} and lease_until < ${parameters.add(now)}`;
  return await change(tx.db, text, parameters);
}

/**
 * Ids of processes that have running jobs.
 */
async function ownersOfRunning(db: Queries, dialect: Dialect): Promise<string[]> {
  const parameters = createParameters(dialect);
  // The condition on the lease leads to the small index of running rows.
  const text = `select distinct owner from outbox where state = 'running' and lease_until > 0 and owner is not null`;
  const rows = await query<{ readonly owner: string }>(db, text, parameters);
  return [...new Set(rows.map(({ owner }) => owner.slice(0, owner.lastIndexOf(':'))))];
}

/** A job that crashes its process must not use up all its claims in one crash loop: after this part of them its leases have to expire. */
const AT_ONCE_PART = 2;

/** Returns the jobs of a process that has ended to `pending`, without waiting for their leases. Returns how many there were. */
async function returnAbandoned(tx: StoreTx, owner: string, maxLost: number): Promise<number> {
  const parameters = createParameters(tx.dialect);
  const text = `update outbox set state = ${PROCESS_ENDED.literal}, lost = lost + 1, is_forked = 0, lease_until = null, owner = null,
      error = '${LOST}'
    where ${PROCESS_ENDED.isFrom} and lease_until > 0 and owner = cast(${parameters.add(owner)} as text) || ':' || claims
      and lost < ${parameters.add(Math.floor(maxLost / AT_ONCE_PART))}`;
  return await change(tx.db, text, parameters);
}

/** Jobs that were claimed and not started become pending again, as if nothing had happened. */
export async function giveBack(tx: StoreTx, jobs: readonly ClaimedJob[], now: number): Promise<void> {
  for (let from = 0; from < jobs.length; from += GIVEN_AT_ONCE) {
    const parameters = createParameters(tx.dialect);
    const pending = { state: GIVE_BACK.literal, holdReason: 'null', finishedAt: 'null', error: 'outbox.error' };
    const text = `with v(id, claims) as (values ${claimRows(jobs.slice(from, from + GIVEN_AT_ONCE), parameters)})
      update outbox set lease_until = null, owner = null, claims = outbox.claims - 1, ${endOfClaim('true', parameters.add(now), pending)}
      from v where outbox.id = v.id and outbox.claims = v.claims and outbox.${GIVE_BACK.isFrom}`;
    await change(tx.db, text, parameters);
  }
}

/**
 * Spreads up to `limit` retries that became due while no process ran over the next `overMs`: otherwise all their receivers would get
 * requests at once. Returns how many were moved.
 */
async function spreadOverdue(
  tx: StoreTx,
  options: { readonly before: number; readonly now: number; readonly overMs: number; readonly limit: number },
): Promise<number> {
  const parameters = createParameters(tx.dialect);
  // A prime spreads neighbouring ids far apart, and always to the same offset.
  const text = `update outbox set run_at = ${parameters.add(options.now)} + (id * 7919) % ${Math.trunc(options.overMs)}
    where id in (select id from outbox where state = 'pending' and attempts > 0 and run_at < ${parameters.add(options.before)}
      limit ${parameters.add(options.limit)})`;
  return await change(tx.db, text, parameters);
}

/** Clocks of processes on one store may differ by this much; what one plans is late by no more for another. */
const CLOCK_SKEW_MS = 60_000;

/**
 * A lease longer than any that could be given now comes from a clock that was ahead: it is cut to the length of a new one. Returns how many there were.
 */
async function cutLeases(tx: StoreTx, kinds: Iterable<JobKind>, now: number): Promise<number> {
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
 * Pending jobs made by a clock ahead of this one would wait until this one gets there: they are moved to now, with their delay. Only
 * the fast lane, because its rows are few. Returns how many there were.
 */
async function pullNew(tx: StoreTx, kinds: Iterable<JobKind>, now: number): Promise<number> {
  let count = 0;
  for (const { kind } of kinds) count += await pullMade(tx, kind, 'lane = 0', now);
  return count;
}

/**
 * Like `pullNew`, for all pending jobs, after a clock was set back by `byMs`. Retries that lie further ahead than that come earlier by as
 * much: those planned by it are then in time, others a little early. Retries that are further ahead than their kind ever
 * plans run now. Infinite: by how much is not known.
 */
async function pullBack(tx: StoreTx, kinds: Iterable<JobKind>, now: number, byMs: number): Promise<number> {
  let count = 0;
  for (const { kind, longestDelayMs } of kinds) {
    count += await pullMade(tx, kind, 'lane in (0, 1)', now);
    if (longestDelayMs === undefined) continue;
    if (Number.isFinite(byMs)) {
      const parameters = createParameters(tx.dialect);
      // The clock was set back at some time since the last sweep.
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

interface RenewerOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly kinds: ReadonlyMap<string, JobKind>;
  /** Running jobs. */
  readonly running: Iterable<ClaimedJob>;
}

/** Renews short leases of long jobs: the jobs of a process that ends are then soon claimed by another one. */
interface Renewer {
  start(): void;
  stop(): void;
}

/** Renewals before a lease would expire. */
const TIMES = 3;

export function createRenewer({ store, clock, log, kinds, running }: RenewerOptions): Renewer {
  const short = new Map([...kinds].flatMap(([name, { leaseMs }]) => (leaseMs === undefined ? [] : [[name, leaseMs]])));
  const pauseMs = Math.floor(Math.min(...short.values()) / TIMES);
  let cancel = (): void => undefined;

  async function renewAll(): Promise<void> {
    const jobs = [...running].filter(({ job }) => short.has(job.kind));
    if (jobs.length === 0) return;
    await store.write(async (tx) => {
      for (const [kind, leaseMs] of short) {
        const ofKind = jobs.filter(({ job }) => job.kind === kind);
        if (ofKind.length > 0) await renew(tx, ofKind, clock.now() + leaseMs);
      }
    });
  }

  function next(): void {
    cancel = clock.timeout(pauseMs, () => {
      renewAll().catch((error: unknown) => log.warn({ error: messageOf(error) }, 'leases could not be renewed'));
      next();
    });
  }

  return {
    start: () => (short.size > 0 ? next() : undefined),
    stop: () => cancel(),
  };
}

/** Jobs that another process has claimed meanwhile are left to it. Never shortens a lease: a slow renewal may end after a later one. */
async function renew(tx: StoreTx, jobs: readonly ClaimedJob[], until: number): Promise<void> {
  const parameters = createParameters(tx.dialect);
  const text = `with v(id, claims) as (values ${claimRows(jobs, parameters)})
    update outbox set lease_until = cast(${parameters.add(until)} as bigint)
    from v where outbox.id = v.id and outbox.claims = v.claims and outbox.state = 'running'
      and outbox.lease_until < cast(${parameters.add(until)} as bigint)`;
  await change(tx.db, text, parameters);
}
