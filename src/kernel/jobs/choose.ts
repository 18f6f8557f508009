/** A due row, as the choice needs it. */
export interface Candidate {
  readonly id: number;
  readonly kind: string;
  readonly lane: 0 | 1;
  readonly group: string;
  /** Unix milliseconds. */
  readonly runAt: number;
  /** The head of an ordered group. */
  readonly isOrdered?: boolean;
}

/** What may still be taken. */
export interface Room {
  /** Free slots of this process. */
  readonly total: number;
  /** Free slots of each kind. */
  kind(kind: string): number;
  /** Free slots of the slow lane: over all kinds, and of one kind. */
  readonly slow: number;
  slowOfKind(kind: string): number;
  /** How many more of a group may run, over all processes. */
  group(kind: string, group: string): number;
  /** How many of a group run now. */
  running(kind: string, group: string): number;
  /** When a group was last served, as a counter; 0 for long ago or never. */
  lastServed(kind: string, group: string): number;
}

interface Queue {
  readonly kind: string;
  readonly group: string;
  readonly rows: Candidate[];
  room: number;
  running: number;
  readonly lastServed: number;
}

/** One of so many picks goes to the slow lane while both lanes have work. */
const SLOW_EVERY = 4;

/**
 * Which of the due rows to run. Groups take turns: first those with the fewest running jobs, of these the one that was served longest
 * ago, so that a long queue delays nobody else's. The slow lane (second retry and later) gets every fourth pick at most, within its
 * own room, so that dead receivers do not starve living ones, and is never starved itself.
 */
export function chooseJobs(candidates: readonly Candidate[], room: Room): Candidate[] {
  const lanes = [queuesOf(candidates, 0, room), queuesOf(candidates, 1, room)] as const;
  const kinds = new Map<string, { left: number; slowLeft: number }>();
  for (const { kind } of candidates) {
    if (!kinds.has(kind)) kinds.set(kind, { left: room.kind(kind), slowLeft: room.slowOfKind(kind) });
  }
  const chosen: Candidate[] = [];
  let slowLeft = room.slow;

  const pick = (lane: 0 | 1): boolean => {
    if (lane === 1 && slowLeft <= 0) return false;
    for (let queue = lanes[lane].peek(); queue !== undefined; queue = lanes[lane].peek()) {
      const left = kinds.get(queue.kind);
      const row = queue.rows[0];
      const isOver = row === undefined || queue.room <= 0 || left === undefined || left.left <= 0;
      if (isOver || (lane === 1 && left.slowLeft <= 0)) {
        lanes[lane].drop();
        continue;
      }
      queue.rows.shift();
      queue.room -= 1;
      queue.running += 1;
      lanes[lane].requeue();
      // The other lane's rows of this group count against the same room.
      lanes[lane === 0 ? 1 : 0].charge(queue.kind, queue.group);
      left.left -= 1;
      if (lane === 1) {
        left.slowLeft -= 1;
        slowLeft -= 1;
      }
      chosen.push(row);
      return true;
    }
    return false;
  };

  while (chosen.length < room.total) {
    const slowFirst = chosen.length % SLOW_EVERY === SLOW_EVERY - 1;
    if (!(slowFirst ? pick(1) || pick(0) : pick(0) || pick(1))) break;
  }
  return chosen;
}

/** The groups of a lane, the next one to be served first. */
function queuesOf(candidates: readonly Candidate[], lane: 0 | 1, room: Room) {
  const byGroup = new Map<string, Queue>();
  for (const row of candidates) {
    if (row.lane !== lane) continue;
    const name = groupKey(row.kind, row.group);
    const queue = byGroup.get(name);
    if (queue !== undefined) queue.rows.push(row);
    else {
      const { kind, group } = row;
      const running = room.running(kind, group);
      byGroup.set(name, {
        kind,
        group,
        rows: [row],
        room: room.group(kind, group),
        running,
        lastServed: room.lastServed(kind, group),
      });
    }
  }
  for (const queue of byGroup.values()) queue.rows.sort((a, b) => a.runAt - b.runAt || a.id - b.id);
  const order = [...byGroup.values()].sort(byTurn);
  return {
    peek: (): Queue | undefined => order[0],
    drop: () => void order.shift(),
    /** Puts the first queue where it belongs after it was served: behind all with as few running jobs. */
    requeue() {
      const queue = order.shift();
      if (queue === undefined || queue.rows.length === 0 || queue.room <= 0) return;
      let low = 0;
      let high = order.length;
      while (low < high) {
        const middle = (low + high) >>> 1;
        if ((order[middle] as Queue).running <= queue.running) low = middle + 1;
        else high = middle;
      }
      order.splice(low, 0, queue);
    },
    charge(kind: string, group: string) {
      const queue = byGroup.get(groupKey(kind, group));
      if (queue !== undefined) queue.room -= 1;
    },
  };
}

function byTurn(a: Queue, b: Queue): number {
  return a.running - b.running || a.lastServed - b.lastServed || (a.rows[0]?.runAt ?? 0) - (b.rows[0]?.runAt ?? 0);
}

export function groupKey(kind: string, group: string): string {
  return `${kind}\n${group}`;
}
