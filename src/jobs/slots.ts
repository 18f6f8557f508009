import type { JobKind } from '../plugin/plugin.ts';
import type { ClaimedJob, ClaimRoom } from './claim.ts';
import { groupKey } from './due.ts';

/** Running jobs of this process, and when each group was served last. */
export interface Slots {
  readonly running: ReadonlySet<ClaimedJob>;
  take(claimed: ClaimedJob): void;
  free(claimed: ClaimedJob): void;
  runningOf(kind: string, group: string): number;
  isFull(): boolean;
  /** Whether one more of this kind may run. */
  hasRoom(kind: string): boolean;
  /** Free slots, of which at most `limit` are given. */
  room(limit: number): ClaimRoom;
}

/** The slow lane has one of this many slots. */
const SLOW_SHARE = 4;
/** Groups remembered; those forgotten were served longest ago, which is what an unknown group counts as. */
const REMEMBERED_GROUPS = 10_000;

export function createSlots(kinds: ReadonlyMap<string, JobKind>, concurrency: number): Slots {
  const running = new Set<ClaimedJob>();
  const served = new Map<string, number>();
  const ofGroups = new Map<string, number>();
  const counts = new Map<string, { all: number; slow: number }>();
  let slow = 0;
  let serving = 0;

  const count = (kind: string) => {
    let found = counts.get(kind);
    if (found === undefined) {
      found = { all: 0, slow: 0 };
      counts.set(kind, found);
    }
    return found;
  };
  const move = ({ job, lane }: ClaimedJob, by: 1 | -1) => {
    const ofKind = count(job.kind);
    ofKind.all += by;
    const key = groupKey(job.kind, job.group);
    const ofGroup = (ofGroups.get(key) ?? 0) + by;
    if (ofGroup > 0) ofGroups.set(key, ofGroup);
    else ofGroups.delete(key);
    if (lane === 0) return;
    ofKind.slow += by;
    slow += by;
  };
  const limitOf = (kind: string) => Math.min(concurrency, kinds.get(kind)?.concurrency ?? 0);
  const slowLimit = (slots: number) => Math.max(1, Math.floor(slots / SLOW_SHARE));

  return {
    running,
    take(claimed) {
      if (running.has(claimed)) return;
      running.add(claimed);
      move(claimed, 1);
      const key = groupKey(claimed.job.kind, claimed.job.group);
      serving += 1;
      served.delete(key);
      served.set(key, serving);
      if (served.size <= REMEMBERED_GROUPS) return;
      for (const oldest of served.keys()) {
        served.delete(oldest);
        break;
      }
    },
    free(claimed) {
      if (running.delete(claimed)) move(claimed, -1);
    },
    runningOf: (kind, group) => ofGroups.get(groupKey(kind, group)) ?? 0,
    isFull: () => running.size >= concurrency,
    hasRoom: (kind) => running.size < concurrency && count(kind).all < limitOf(kind),
    room: (limit) => ({
      total: Math.min(limit, concurrency - running.size),
      kind: (kind) => limitOf(kind) - count(kind).all,
      slow: slowLimit(concurrency) - slow,
      slowOfKind: (kind) => slowLimit(limitOf(kind)) - count(kind).slow,
      lastServed: (kind, group) => served.get(groupKey(kind, group)) ?? 0,
    }),
  };
}

/** A job that was claimed ahead, and what its kind has loaded for it. */
export interface WaitingJob {
  readonly claimed: ClaimedJob;
  readonly claimedAt: number;
  /** Null while it is being loaded. */
  prepared: { readonly value: unknown; readonly at: number } | null;
}

/** Jobs with a lease of this process that wait for a slot or for a limit of their group. */
interface Waiting {
  readonly size: number;
  ofKind(kind: string): number;
  add(jobs: readonly WaitingJob[]): void;
  /**
   * Takes the job to run next, or null: of the groups within their limits the one with the fewest running jobs, of these the one that was
   * served longest ago. `isStale` jobs are not taken but added to `stale`.
   */
  next(isStale: (job: WaitingJob) => boolean, stale: Set<WaitingJob>): WaitingJob | null;
  /** A job of this group has finished: its limit may allow more. */
  freed(kind: string, group: string): void;
  /** Time has passed: the limits of all groups are checked again. */
  unblock(): void;
  /** Removes and returns those that still wait. */
  remove(jobs: readonly WaitingJob[]): ClaimedJob[];
  /** Removes and returns the jobs that were claimed before `time`. */
  takeOlder(time: number): ClaimedJob[];
  /** Jobs of a kind that are loaded. */
  loaded(kind: string): WaitingJob[];
}

interface WaitingGroup {
  readonly kind: string;
  readonly group: string;
  readonly jobs: WaitingJob[];
  isBlocked: boolean;
}

export function createWaiting(kinds: ReadonlyMap<string, JobKind>, slots: Slots): Waiting {
  /** In the order in which they were served. */
  const groups = new Map<string, WaitingGroup>();
  const counts = new Map<string, number>();
  let size = 0;

  const count = (kind: string, by: number) => {
    size += by;
    counts.set(kind, (counts.get(kind) ?? 0) + by);
  };
  const groupOf = ({ job }: ClaimedJob): WaitingGroup => {
    const key = groupKey(job.kind, job.group);
    let found = groups.get(key);
    if (found === undefined) {
      found = { kind: job.kind, group: job.group, jobs: [], isBlocked: false };
      groups.set(key, found);
    }
    return found;
  };
  const hasRoom = ({ kind, group }: WaitingGroup): boolean => {
    const limit = kinds.get(kind)?.groupConcurrency?.(group) ?? Number.POSITIVE_INFINITY;
    return slots.runningOf(kind, group) < limit;
  };
  const best = (passed: ReadonlySet<WaitingGroup>): WaitingGroup | null => {
    let found: WaitingGroup | null = null;
    let fewest = Number.POSITIVE_INFINITY;
    for (const one of groups.values()) {
      if (one.isBlocked || passed.has(one)) continue;
      const running = slots.runningOf(one.kind, one.group);
      if (running >= fewest) continue;
      found = one;
      fewest = running;
      if (running === 0) break;
    }
    return found;
  };
  const take = (group: WaitingGroup): WaitingJob | null => {
    const job = group.jobs.shift() ?? null;
    const key = groupKey(group.kind, group.group);
    groups.delete(key);
    if (group.jobs.length > 0) groups.set(key, group);
    if (job !== null) count(group.kind, -1);
    return job;
  };
  const removeWhere = (condition: (job: WaitingJob) => boolean): WaitingJob[] => {
    const removed: WaitingJob[] = [];
    for (const [key, group] of groups) {
      const gone = group.jobs.filter(condition);
      if (gone.length === 0) continue;
      count(group.kind, -gone.length);
      removed.push(...gone);
      const left = group.jobs.filter((job) => !condition(job));
      group.jobs.splice(0, group.jobs.length, ...left);
      if (left.length === 0) groups.delete(key);
    }
    return removed;
  };

  return {
    get size() {
      return size;
    },
    ofKind: (kind) => counts.get(kind) ?? 0,
    add(jobs) {
      for (const job of jobs) {
        groupOf(job.claimed).jobs.push(job);
        count(job.claimed.job.kind, 1);
      }
    },
    next(isStale, stale) {
      if (size === 0 || slots.isFull()) return null;
      const passed = new Set<WaitingGroup>();
      for (let group = best(passed); group !== null; group = best(passed)) {
        const first = group.jobs[0];
        if (first === undefined || first.prepared === null || !slots.hasRoom(group.kind)) passed.add(group);
        else if (!hasRoom(group)) group.isBlocked = true;
        else if (isStale(first)) {
          stale.add(first);
          passed.add(group);
        } else return take(group);
      }
      return null;
    },
    freed(kind, group) {
      const found = groups.get(groupKey(kind, group));
      if (found !== undefined) found.isBlocked = false;
    },
    unblock() {
      for (const group of groups.values()) group.isBlocked = false;
    },
    remove(jobs) {
      const gone = new Set(jobs);
      return removeWhere((job) => gone.has(job)).map(({ claimed }) => claimed);
    },
    takeOlder: (time) => removeWhere(({ claimedAt }) => claimedAt < time).map(({ claimed }) => claimed),
    loaded(kind) {
      return [...groups.values()]
        .filter((group) => group.kind === kind)
        .flatMap(({ jobs }) => jobs.filter(({ prepared }) => prepared !== null));
    },
  };
}
