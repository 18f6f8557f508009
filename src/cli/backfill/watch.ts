import { type GapRecord, missingSlots, readGaps } from '../../kernel/follower/backfill/gap-record.ts';
import type { Clock } from '../../ports/clock.ts';
import type { Store } from '../../ports/store.ts';
import type { Progress } from '../progress.ts';

export type WatchEnd =
  | 'filled'
  /** What is left was tried since, and something outside has to change first. */
  | 'blocked'
  /** Nobody works on it any more. */
  | 'gone'
  | 'interrupted';

export interface WatchOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly isOurs: (gap: GapRecord) => boolean;
  /** The gaps as they were when the work was asked for. */
  readonly before: readonly GapRecord[];
  readonly progress: (total: number) => Progress;
  readonly isWorkedOn: () => boolean;
  readonly signal: AbortSignal;
}

const LOOK_MS = 500;

/** Shows how the work gets on, from the records alone, whoever does it. */
export async function watchGaps(
  options: WatchOptions,
): Promise<{ readonly end: WatchEnd; readonly left: GapRecord[] }> {
  const { store, clock, signal, before } = options;
  const total = before.reduce((sum, gap) => sum + missingSlots(gap), 0);
  const progress = options.progress(total);
  const triedBefore = new Map(before.map(({ id, triedAt }) => [id, triedAt]));
  const isBlocked = (gap: GapRecord) =>
    gap.trouble !== null && gap.triedAt !== null && gap.triedAt !== (triedBefore.get(gap.id) ?? null);
  try {
    for (;;) {
      // Asked before the look: who ends after its last commit has done its work.
      const isWorkedOn = options.isWorkedOn();
      const left = (await readGaps(store.read, { isOpen: true, limit: 1_000 })).filter(options.isOurs).reverse();
      const missing = left.reduce((sum, gap) => sum + missingSlots(gap), 0);
      progress.update(Math.max(0, total - missing), left.find(({ trouble }) => trouble !== null)?.trouble ?? null);
      if (left.length === 0) return { end: 'filled', left };
      if (signal.aborted) return { end: 'interrupted', left };
      if (left.every(isBlocked)) return { end: 'blocked', left };
      if (!isWorkedOn) return { end: 'gone', left };
      await clock.sleep(LOOK_MS, signal).catch(() => undefined);
    }
  } finally {
    progress.end();
  }
}
