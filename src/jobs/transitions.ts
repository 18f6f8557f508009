import { type Change, changeOf, type Transitions } from '../lib/transitions.ts';
import type { JobState } from '../ports/outbox.ts';

/** `none`: there is no row. */
export type RowState = JobState | 'none';

/** What changes the state of a job, by what writes it: the owner of the job, the runner, or the sweep of leases. */
export const OUTBOX = {
  enqueue: { none: 'pending' },
  'enqueue held': { none: 'held' },
  claim: { pending: 'running' },
  'give back': { running: 'pending' },
  'give back, rolled back': { running: 'discarded' },
  'ack retry': { running: 'pending' },
  'ack held': { running: 'held' },
  'ack done': { running: 'done' },
  'ack failed': { running: 'failed' },
  'ack discarded': { running: 'discarded' },
  'lease expired': { running: 'pending' },
  'lease expired too often': { running: 'failed' },
  'process ended': { running: 'pending' },
  hasten: { pending: 'pending' },
  hold: { pending: 'held' },
  take: { pending: 'held' },
  'return taken': { held: 'pending' },
  release: { held: 'pending' },
  'finish done': { held: 'done' },
  'finish failed': { held: 'failed' },
  discard: { pending: 'discarded', held: 'discarded' },
  'roll back': { pending: 'discarded', held: 'discarded' },
  requeue: { done: 'pending', failed: 'pending', discarded: 'pending' },
  prune: { done: 'none', failed: 'none', discarded: 'none' },
} as const satisfies Transitions<RowState, string>;

export type OutboxEvent = keyof typeof OUTBOX;

/** The event of an outcome with which an attempt ends. */
export type AckEvent = Extract<OutboxEvent, `ack ${string}`>;

/** An event as SQL: statements are written as text on hot paths, once per process. */
interface SqlChange<From extends string, To extends string> extends Change<From, To> {
  /** Condition on the rows. One state is compared by `=`, because a partial index is only found by its very condition. */
  readonly isFrom: string;
  /** The new state as a literal. */
  readonly literal: string;
}

/** Of an event that changes stored rows. */
export function sqlChange<Row extends { readonly [state in JobState]?: RowState }>(
  row: Row,
): SqlChange<keyof Row & JobState, Row[keyof Row] & JobState> {
  const { from, to } = changeOf(row as { readonly [state: string]: string }) as Change<
    keyof Row & JobState,
    Row[keyof Row] & JobState
  >;
  const names = from.map((state) => `'${state}'`);
  const isFrom = names.length === 1 ? `state = ${names[0]}` : `state in (${names.join(', ')})`;
  return { from, to, isFrom, literal: `'${to}'` };
}
