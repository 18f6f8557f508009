import type { Store } from '../../src/plugin/plugin.ts';
import type { SinkView } from '../../src/ports/sink.ts';
import type { Sink } from './config.ts';
import { eventTableNames } from './rows/tables.ts';
import { type EventRange, openTasks, readCuts, readHoles, readStates } from './store.ts';

/** Where each sink stands, as its target said last. */
export async function describeSinks(
  db: Store['read'],
  sinks: readonly Pick<Sink, 'name' | 'chain' | 'tables'>[],
): Promise<readonly Omit<SinkView, 'kind' | 'lagSlots'>[]> {
  const views = [];
  const states = await readStates(
    db,
    sinks.map(({ name }) => name),
  );
  for (const sink of sinks) {
    const state = states.get(sink.name)!;
    const tasks = await openTasks(db, state.name);
    views.push({
      name: state.name,
      state: state.isPaused
        ? ('paused' as const)
        : state.errorCode !== null
          ? ('failing' as const)
          : state.last === null
            ? ('waiting' as const)
            : ('running' as const),
      firstSlot: state.first,
      lastSlot: state.last,
      error: state.error,
      tasks: tasks.map(({ id, kind, first_slot: from, last_slot: to, next_slot: next, created_at: createdAt }) => ({
        id,
        kind,
        from,
        to,
        next,
        createdAt,
      })),
      holes: (await holesOf(db, sink, state.last)).map(({ name: table, first: from, last: to }) => ({
        table,
        from,
        to,
      })),
    });
  }
  return views;
}

/** Slots that the target has without the rows of a table, and those that it will have so: their rows are gone already. */
async function holesOf(
  db: Store['read'],
  { name, chain, tables }: Pick<Sink, 'name' | 'chain' | 'tables'>,
  last: number | null,
): Promise<readonly EventRange[]> {
  const written = await readHoles(db, name);
  const ahead = await readCuts(db, { chain, names: eventTableNames(tables), from: (last ?? -1) + 1 });
  const found: EventRange[] = [];
  for (const hole of [...written, ...ahead].toSorted((a, b) => a.name.localeCompare(b.name) || a.first - b.first)) {
    const before = found.at(-1);
    if (before?.name === hole.name && hole.first <= before.last + 1)
      found[found.length - 1] = { ...before, last: Math.max(before.last, hole.last) };
    else found.push(hole);
  }
  return found;
}
