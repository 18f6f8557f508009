import { messageOf } from '../../lib/coded-error.ts';
import type { Clock } from '../../ports/clock.ts';
import type { Log } from '../../ports/log.ts';
import type { Store } from '../../ports/store.ts';
import type { JobKind } from '../plugin.ts';
import { stopped } from './attempt.ts';
import type { ClaimedJob } from './claim.ts';
import type { Finished } from './record.ts';
import { settleAll } from './settle.ts';
import { giveBack } from './sweep.ts';

/** What a process has when it stops. */
export interface Left {
  /** Over, and not written yet. */
  readonly outcomes: readonly Finished[];
  /** With a slot. */
  readonly running: readonly ClaimedJob[];
  /** Those of them that were not begun. */
  readonly loading: readonly ClaimedJob[];
  /** Claimed, without a slot. */
  readonly waiting: readonly ClaimedJob[];
}

interface LeaveParts {
  readonly store: Store;
  readonly kinds: ReadonlyMap<string, JobKind>;
  readonly clock: Clock;
  readonly log: Log;
}

/**
 * The last write of a process. What was begun may have had its effect, and is not left as if it had never been claimed. Never rejects:
 * what cannot be written keeps its lease until that runs out.
 */
export async function leaveJobs({ store, kinds, clock, log }: LeaveParts, left: Left): Promise<void> {
  const { outcomes, running, loading, waiting } = left;
  const unbegun = new Set(loading);
  const begun = running.filter((one) => !unbegun.has(one));
  const finished = [...outcomes, ...begun.map((claimed): Finished => ({ claimed, outcome: stopped(claimed) }))];
  const back = [...unbegun, ...waiting];
  if (finished.length + back.length === 0) return;
  const now = clock.now();
  try {
    await store.write(async (tx) => {
      await settleAll(tx, kinds, finished, now);
      await giveBack(tx, back, now);
    });
  } catch (error) {
    log.warn({ jobs: finished.length + back.length, error: messageOf(error) }, 'leases are left to run out');
  }
}
