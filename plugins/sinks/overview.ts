import type { Store } from '../../src/plugin/plugin.ts';
import type { SinkView } from '../../src/ports/sink.ts';
import { openTasks, readStates } from './store.ts';

/** Where each sink stands, as its target said last. */
export async function describeSinks(
  db: Store['read'],
  names: readonly string[],
): Promise<readonly Omit<SinkView, 'kind' | 'lagSlots'>[]> {
  const views = [];
  for (const state of (await readStates(db, names)).values()) {
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
    });
  }
  return views;
}
