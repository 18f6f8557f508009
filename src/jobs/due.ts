import type { Store, StoreTx } from '../ports/store.ts';
import { createParameters, padded, query } from './table.ts';

/** A kind and lane that has room. */
export interface DueQuestion {
  readonly kind: string;
  readonly lane: 0 | 1;
}

interface DueOptions {
  readonly now: number;
  /** Rows looked at per kind and lane, oldest first. */
  readonly window: number;
  /** Rows that will be chosen at most. */
  readonly wanted: number;
  /** Running jobs of a group. */
  running(kind: string, group: string): number;
  /** Jobs of a group that may start. */
  group(kind: string, group: string): number;
}

/** Position of the walk through the groups of a kind and lane. */
interface Step {
  after: string;
  skipped: number;
  /** When the last walk visited many groups and found nothing; null where it found something. */
  emptyAt: number | null;
}

/** The caller keeps it between claims. */
export type GroupWalk = Map<string, Step>;

interface DueRow {
  readonly id: number;
  readonly kind: string;
  readonly lane: number;
  readonly grp: string;
  readonly position: number | null;
  readonly run_at: number;
}

/** Groups visited in one statement. */
const WALK_STEPS = 64;
/** Statements of one walk: it steps over groups that are at their limit until it has found enough. */
const MAX_PIECES = 32;
/** After a longer walk that found nothing the next one waits `EMPTY_PAUSE_MS`: many groups can be at their limit for hours. */
const CHEAP_PIECES = 4;
const EMPTY_PAUSE_MS = 20;
/** A full window that contains enough groups is used this many times in a row before the groups are walked again. */
const MAX_SKIPPED = 3;

/**
 * Rows that could run now. The window of the oldest due rows contains all of them as long as fewer rows are due than fit in. When it is
 * full, a few groups, or groups at their limit, may fill it: then the groups are also walked one by one, and those below their limit add
 * their oldest rows. Of an ordered group only the head is a candidate.
 */
export async function findDue(
  tx: StoreTx,
  questions: readonly DueQuestion[],
  walk: GroupWalk,
  options: DueOptions,
): Promise<DueJob[]> {
  if (questions.length === 0) return [];
  const rows = await oldestDue(tx, questions, options);
  for (const question of questions) {
    const ofQuestion = rows.filter(({ kind, lane }) => kind === question.kind && lane === question.lane);
    if (ofQuestion.length < options.window) continue;
    const seen = new Set(ofQuestion.map(({ grp }) => grp));
    const free = [...seen].filter((group) => options.group(question.kind, group) > 0).length;
    const step = stepOf(walk, question);
    step.skipped = free < options.wanted || step.skipped >= MAX_SKIPPED ? 0 : step.skipped + 1;
    if (step.skipped > 0) continue;
    const others = await findGroups(tx, question, step, options, seen, Math.max(1, options.wanted - free));
    rows.push(...(await oldestOfGroups(tx, question, others, options)));
  }
  return await onlyHeads(tx, rows, options);
}

async function oldestDue(
  { db, dialect }: StoreTx,
  questions: readonly DueQuestion[],
  { now, window }: DueOptions,
): Promise<DueRow[]> {
  const parameters = createParameters(dialect);
  const parts = questions.map(({ kind, lane }, index) => {
    const where = `kind = ${parameters.add(kind)} and lane = ${lane} and run_at <= ${parameters.add(now)}`;
    return `select * from (select id, kind, lane, grp, position, run_at from outbox
      where state = 'pending' and ${where} order by run_at limit ${parameters.add(window)}) as q${index}`;
  });
  return [...(await query<DueRow>(db, parts.join(' union all '), parameters))];
}

function stepOf(walk: GroupWalk, { kind, lane }: DueQuestion): Step {
  const name = `${lane} ${kind}`;
  const step = walk.get(name) ?? { after: '', skipped: 0, emptyAt: null };
  walk.set(name, step);
  return step;
}

/** Continues the walk until it has found `enough` groups that are not `seen` and may run, or has reached the end. */
async function findGroups(
  tx: StoreTx,
  question: DueQuestion,
  step: Step,
  { now, group: roomOf }: DueOptions,
  seen: ReadonlySet<string>,
  enough: number,
): Promise<readonly string[]> {
  const sinceEmptyMs = step.emptyAt === null ? EMPTY_PAUSE_MS : now - step.emptyAt;
  if (sinceEmptyMs >= 0 && sinceEmptyMs < EMPTY_PAUSE_MS) return [];
  const found: string[] = [];
  let pieces = 0;
  do {
    const groups = await walkGroups(tx, question, step, now);
    found.push(...groups.filter((group) => !seen.has(group) && roomOf(question.kind, group) > 0));
    pieces += 1;
  } while (step.after !== '' && pieces < MAX_PIECES && found.length < enough);
  step.emptyAt = found.length === 0 && pieces > CHEAP_PIECES ? now : null;
  return found;
}

/** The next groups with a due row, two index seeks each. */
async function walkGroups(
  { db, dialect }: StoreTx,
  { kind, lane }: DueQuestion,
  step: { after: string },
  now: number,
): Promise<string[]> {
  const parameters = createParameters(dialect);
  // Placeholders are numbered from left to right, in the order of evaluation.
  const next = (after: () => string) => `(select o.grp from outbox o where o.state = 'pending'
    and o.kind = ${parameters.add(kind)} and o.lane = ${lane} and o.grp > ${after()} order by o.grp limit 1)`;
  const text = `with recursive walk(grp, step) as (
      select ${next(() => parameters.add(step.after))}, 1
      union all
      select ${next(() => 'walk.grp')}, walk.step + 1 from walk where walk.grp is not null and walk.step < ${WALK_STEPS}
    )
    select grp, (select min(o.run_at) from outbox o where o.state = 'pending' and o.kind = ${parameters.add(kind)}
      and o.lane = ${lane} and o.grp = walk.grp) as run_at from walk where grp is not null`;
  const groups = await query<{ readonly grp: string; readonly run_at: number }>(db, text, parameters);
  step.after = groups.length < WALK_STEPS ? '' : (groups.at(-1)?.grp ?? '');
  return groups.filter(({ run_at }) => run_at <= now).map(({ grp }) => grp);
}

async function oldestOfGroups(
  { db, dialect }: StoreTx,
  { kind, lane }: DueQuestion,
  groups: readonly string[],
  { now, wanted }: DueOptions,
): Promise<readonly DueRow[]> {
  // Groups are served in rotation: where there are many, few rows of each are needed.
  const perGroup = 1 + Math.ceil(wanted / Math.max(1, groups.length));
  const rows: DueRow[] = [];
  for (let start = 0; start < groups.length; start += WALK_STEPS) {
    const parameters = createParameters(dialect);
    const parts = padded<string | null>(groups.slice(start, start + WALK_STEPS), null).map(
      (group, index) => `select * from (select id, kind, lane, grp, position, run_at from outbox
        where state = 'pending' and kind = ${parameters.add(kind)} and lane = ${lane} and grp = ${parameters.add(group)}
        and run_at <= ${parameters.add(now)} order by run_at limit ${parameters.add(perGroup)}) as q${index}`,
    );
    rows.push(...(await query<DueRow>(db, parts.join(' union all '), parameters)));
  }
  return rows;
}

/** Replaces the rows of ordered groups by the head of each, where that one is due. */
async function onlyHeads(tx: StoreTx, rows: readonly DueRow[], options: DueOptions): Promise<DueJob[]> {
  const free = rows.filter(({ position }) => position === null);
  const ordered = new Map(
    rows.filter(({ position }) => position !== null).map((row) => [`${row.kind}\n${row.grp}`, row]),
  );
  if (ordered.size === 0) return free.map(candidateOf);
  const heads: (DueRow & { readonly state: string })[] = [];
  // A job that was inserted before the running one waits for it.
  const groups = [...ordered.values()].filter(({ kind, grp }) => options.running(kind, grp) === 0);
  for (let start = 0; start < groups.length; start += WALK_STEPS) {
    heads.push(...(await headsOf(tx, groups.slice(start, start + WALK_STEPS))));
  }
  const due = heads.filter(({ state, run_at }) => state === 'pending' && run_at <= options.now);
  return [...free, ...due].map(candidateOf);
}

async function headsOf({ db, dialect }: StoreTx, groups: readonly DueRow[]) {
  const parameters = createParameters(dialect);
  const parts = padded<DueRow | null>(groups, null).map(
    (row, index) => `select * from (select id, kind, lane, grp, position, run_at, state from outbox
      where kind = ${parameters.add(row?.kind ?? null)} and grp = ${parameters.add(row?.grp ?? null)}
      and position is not null and state in ('pending', 'running') order by position, id limit 1) as q${index}`,
  );
  return await query<DueRow & { readonly state: string }>(db, parts.join(' union all '), parameters);
}

function candidateOf({ id, kind, lane, grp, position, run_at }: DueRow): DueJob {
  return { id, kind, lane: lane === 0 ? 0 : 1, group: grp, runAt: run_at, isOrdered: position !== null };
}

/** When the next pending row of these kinds becomes due after `now`, or null. Rows that are due and wait for room don't count. */
export async function nextDueAt(store: Store, kinds: readonly string[], now: number): Promise<number | null> {
  if (kinds.length === 0) return null;
  const parameters = createParameters(store.dialect);
  const parts = kinds.flatMap((kind) =>
    [0, 1].map(
      (lane) => `select (select run_at from outbox where state = 'pending' and kind = ${parameters.add(kind)}
        and lane = ${lane} and run_at > ${parameters.add(now)} order by run_at limit 1) as run_at`,
    ),
  );
  const rows = await query<{ readonly run_at: number | null }>(store.read, parts.join(' union all '), parameters);
  const times = rows.flatMap(({ run_at }) => run_at ?? []);
  return times.length === 0 ? null : Math.min(...times);
}

/** A due row, with what the choice depends on. */
export interface DueJob {
  readonly id: number;
  readonly kind: string;
  readonly lane: 0 | 1;
  readonly group: string;
  /** Unix milliseconds. */
  readonly runAt: number;
  /** The head of an ordered group. */
  readonly isOrdered?: boolean;
}

/** What may still be claimed. */
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
  /** Counter of the last time a group was served; 0 for long ago or never. */
  lastServed(kind: string, group: string): number;
}

interface Queue {
  readonly kind: string;
  readonly group: string;
  readonly rows: DueJob[];
  room: number;
  running: number;
  readonly lastServed: number;
}

/** While both lanes have work, one of this many picks goes to the slow lane. */
const SLOW_EVERY = 4;

/**
 * Chooses which of the due rows to run. Groups with the fewest running jobs come first, then the one that was served longest ago, so
 * that a long queue of one group delays no other. The slow lane (second retry and later) gets at most every fourth pick, within its
 * own room: unreachable receivers do not starve reachable ones, and are not starved themselves.
 */
export function chooseJobs(candidates: readonly DueJob[], room: Room): DueJob[] {
  const lanes = [queuesOf(candidates, 0, room), queuesOf(candidates, 1, room)] as const;
  const kinds = new Map<string, { left: number; slowLeft: number }>();
  for (const { kind } of candidates) {
    if (!kinds.has(kind)) kinds.set(kind, { left: room.kind(kind), slowLeft: room.slowOfKind(kind) });
  }
  const chosen: DueJob[] = [];
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
function queuesOf(candidates: readonly DueJob[], lane: 0 | 1, room: Room) {
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
  const order = [...byGroup.values()].sort(byPriority);
  return {
    peek: (): Queue | undefined => order[0],
    drop: () => void order.shift(),
    /** Moves the first queue, which was just served, behind all with as few running jobs. */
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

function byPriority(a: Queue, b: Queue): number {
  return a.running - b.running || a.lastServed - b.lastServed || (a.rows[0]?.runAt ?? 0) - (b.rows[0]?.runAt ?? 0);
}

export function groupKey(kind: string, group: string): string {
  return `${kind}\n${group}`;
}
