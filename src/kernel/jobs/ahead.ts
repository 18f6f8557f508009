import type { JobKind } from '../plugin.ts';
import { type Candidate, chooseJobs, groupKey, type Room } from './choose.ts';

/** Jobs that may be claimed before a slot is free for them, so that one transaction serves many. */
export interface AheadRoom {
  readonly total: number;
  /** The part of `total` that is kept for groups of which this process holds nothing. */
  readonly reserved: number;
  kind(kind: string): number;
  /** Whether a running row is one of this process. */
  isOwn(id: number, claim: number): boolean;
}

export interface AheadOptions {
  readonly kinds: ReadonlyMap<string, JobKind>;
  readonly room: Room;
  readonly ahead: AheadRoom;
  /** What other processes hold of each group. */
  readonly others: ReadonlyMap<string, number>;
}

/** Of a group as many times its limit are held ahead at most. */
const AHEAD_PER_LIMIT = 8;

/**
 * Which of the due rows that cannot start now to take all the same. Only while no other process has rows of the group: then this
 * process alone keeps its limit, when it starts them. The others see the rows as running and take no more than the limit leaves.
 * First attempts and first retries only, since the slow lane has little to gain; ordered groups have one row at a time anyway.
 */
export function chooseAhead(
  due: readonly Candidate[],
  chosen: readonly Candidate[],
  options: AheadOptions,
): Candidate[] {
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
  const pick = (rows: readonly Candidate[], total: number, group: Room['group']) =>
    chooseJobs(rows, { ...room, total, kind: ahead.kind, slow: 0, running: heldOf, group });

  // Groups that wait for their first slot come first, and have room that the others can't use.
  const isNew = ({ kind, group }: Candidate) => heldOf(kind, group) === 0;
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
