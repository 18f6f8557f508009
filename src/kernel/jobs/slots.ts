import type { JobKind } from '../plugin.ts';
import { groupKey } from './choose.ts';
import type { ClaimedJob, ClaimRoom } from './claim.ts';

/** What runs in this process, and who was served when. */
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

/** The slow lane has a quarter of the slots. */
const SLOW_SHARE = 4;
/** Groups remembered; who is forgotten was served longest ago, and that is what counts. */
const REMEMBERED_GROUPS = 10_000;

export function createSlots(kinds: ReadonlyMap<string, JobKind>, concurrency: number): Slots {
  const running = new Set<ClaimedJob>();
  const served = new Map<string, number>();
  const ofGroups = new Map<string, number>();
  const counts = new Map<string, { all: number; slow: number }>();
  let slow = 0;
  let turn = 0;

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
      turn += 1;
      served.delete(key);
      served.set(key, turn);
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
