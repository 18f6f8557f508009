/** Lets so many pieces of work run at once, in all and per group; the others wait in their order, as many as may. */
export interface Turns {
  /** False when too many wait already; then `work` is never run. `work` must not reject. */
  run(group: string, work: () => Promise<void>): boolean;
  readonly running: () => number;
  readonly waiting: () => number;
}

export interface TurnLimits {
  readonly concurrency: number;
  readonly perGroup: number;
  readonly maxWaiting: number;
}

export function createTurns({ concurrency, perGroup, maxWaiting }: TurnLimits): Turns {
  const queue: { readonly group: string; readonly work: () => Promise<void> }[] = [];
  const groups = new Map<string, number>();
  let running = 0;

  const hasRoom = (group: string): boolean => (groups.get(group) ?? 0) < perGroup;

  function start(group: string, work: () => Promise<void>): void {
    running += 1;
    groups.set(group, (groups.get(group) ?? 0) + 1);
    void work().finally(() => {
      running -= 1;
      const left = (groups.get(group) ?? 1) - 1;
      if (left === 0) groups.delete(group);
      else groups.set(group, left);
      next();
    });
  }

  function next(): void {
    while (running < concurrency) {
      const index = queue.findIndex(({ group }) => hasRoom(group));
      if (index < 0) return;
      const [chosen] = queue.splice(index, 1);
      if (chosen !== undefined) start(chosen.group, chosen.work);
    }
  }

  return {
    run(group, work) {
      if (queue.length >= maxWaiting) return false;
      queue.push({ group, work });
      next();
      return true;
    },
    running: () => running,
    waiting: () => queue.length,
  };
}
