import type { OpenSink, SinkPosition, SinkTarget } from '../../src/ports/sink.ts';
import type { Store } from '../../src/ports/store.ts';
import { type BatchBounds, OpenBatch } from './batch.ts';
import { LIVE, type OpenTarget } from './open-target.ts';
import type { BlockSource } from './source.ts';
import { type SinkTaskRow, updateTask } from './store.ts';
import { BLOCK_TEXTS, compareRows, emptyFindings, type Findings } from './verify.ts';

/** What operators ask of a sink, a step at a time between batches of the part that follows the chain. */
export interface TaskParts {
  readonly sink: OpenSink;
  readonly store: Store;
  readonly source: BlockSource;
  readonly bounds: BatchBounds;
  readonly open: OpenTarget;
  readonly signal: AbortSignal;
  write(batch: OpenBatch): Promise<boolean>;
}

const VERIFIED_SLOTS = 64;

/** Whether it has done something. Errors: those of source and target, after which the step is repeated. */
export async function runTask(task: SinkTaskRow, parts: TaskParts): Promise<boolean> {
  if (task.kind === 'verify') return await verifyStep(task, parts);
  return await backfillStep(task, parts);
}

const partOf = ({ first_slot: first, last_slot: last }: Pick<SinkTaskRow, 'first_slot' | 'last_slot'>): string =>
  `${first}-${last}`;

async function backfillStep(task: SinkTaskRow, parts: TaskParts): Promise<boolean> {
  const { store, open, source, bounds, signal } = parts;
  const part = partOf(task);
  const live = open.positions.get(LIVE);
  // The first batch decides where the part that follows the chain begins.
  if (live === undefined) return false;
  const others = [...open.positions.values()].filter((position) => position.part !== part);
  const other = others.find(({ first, last, part: name }) =>
    name === LIVE ? task.last_slot >= first : task.first_slot <= last && task.last_slot >= first,
  );
  if (other !== undefined) {
    const detail = `the target has slots ${other.first} to ${other.part === LIVE ? 'now' : other.last} already`;
    await updateTask(store, task.id, { state: 'failed', detail });
    return true;
  }
  const position: SinkPosition | null = open.positions.get(part) ?? null;
  const next = position === null ? task.first_slot : position.last + 1;
  if (next > task.last_slot) {
    await updateTask(store, task.id, { state: 'done', next_slot: next });
    return true;
  }
  const batch = new OpenBatch(part, position, next);
  await batch.read(source, task.last_slot, bounds, signal);
  if (!(await parts.write(batch))) {
    await updateTask(store, task.id, { state: 'failed', detail: `no block is in slots ${next} to ${task.last_slot}` });
    return true;
  }
  await updateTask(store, task.id, { next_slot: batch.next });
  return true;
}

async function verifyStep(task: SinkTaskRow, parts: TaskParts): Promise<boolean> {
  const { store, open, sink, bounds } = parts;
  const { target, positions } = open;
  const read = bounds.takes === 'rows' ? target.read?.bind(target) : readerOfTexts(target);
  if (read === undefined) {
    await updateTask(store, task.id, { state: 'failed', detail: 'this kind of target cannot be read' });
    return true;
  }
  const covered = [...positions.values()].find(({ first, last }) => first <= task.next_slot && last >= task.next_slot);
  if (covered === undefined) {
    const detail = `the target does not have slot ${task.next_slot}`;
    await updateTask(store, task.id, { state: 'failed', detail });
    return true;
  }
  const last = Math.min(task.last_slot, covered.last, task.next_slot + VERIFIED_SLOTS - 1);
  const tables = bounds.takes === 'rows' ? sink.tables : [BLOCK_TEXTS];
  const before = task.detail === null ? emptyFindings(tables) : (JSON.parse(task.detail) as Findings);
  const findings = await compareRows(before, { ...parts, ...bounds, tables, read }, [task.next_slot, last]);
  await updateTask(store, task.id, {
    next_slot: last + 1,
    detail: JSON.stringify(findings),
    state: last === task.last_slot ? 'done' : 'open',
  });
  return true;
}

/** Blocks as rows, to be compared like them. */
function readerOfTexts(target: SinkTarget): SinkTarget['read'] {
  const { texts } = target;
  if (texts === undefined) return undefined;
  return async (_table, first, last) => (await texts.call(target, first, last)).map(({ slot, text }) => [slot, text]);
}
