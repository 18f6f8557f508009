import { setTimeout as sleep } from 'node:timers/promises';

/** Something that is done again and again beside the drills. */
export interface Work {
  /** Resolves when the last round is over. */
  pause(): Promise<void>;
  resume(): void;
}

/** Runs rounds one after the other, `everyMs` apart, from `resume` on. A throw is told, and ends no work. */
export function createWork(everyMs: number, round: () => Promise<void>, failed: (error: unknown) => void): Work {
  let running = false;
  let loop: Promise<void> = Promise.resolve();
  async function work(): Promise<void> {
    while (running) {
      await round().catch(failed);
      await sleep(everyMs);
    }
  }
  return {
    pause() {
      running = false;
      return loop;
    },
    resume() {
      if (running) return;
      running = true;
      loop = loop.then(work);
    },
  };
}
