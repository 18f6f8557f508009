import type { Clock } from '../ports/clock.ts';

/**
 * Runs `work` at this interval until stopped, never concurrently: a long run delays the next one. Errors go to `onError`. The returned
 * function aborts the signal of `work` and resolves when a run in flight has ended.
 */
export function startEvery(
  clock: Clock,
  intervalMs: number,
  work: (signal: AbortSignal) => unknown,
  onError: (error: unknown) => void,
): () => Promise<void> {
  const controller = new AbortController();
  const { signal } = controller;
  const loop = async (): Promise<void> => {
    for (;;) {
      try {
        await clock.sleep(intervalMs, signal);
      } catch {
        return;
      }
      try {
        await work(signal);
      } catch (error) {
        if (!signal.aborted) onError(error);
      }
    }
  };
  const running = loop();
  return () => {
    controller.abort();
    return running;
  };
}
