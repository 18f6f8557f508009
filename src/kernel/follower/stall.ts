import type { Run } from './run.ts';
import { statusOf } from './status-of.ts';

/** Tells once when following has stood still for long, and once when it goes on. */
export function watchStall(run: Run): void {
  const { state, chain, log, clock, follow } = run;
  const { stalled, cursorSlot, lagSlots } = statusOf(run);
  const isLong = clock.monotonic() - state.lastReleaseAt >= follow.stalledAfterSeconds * 1_000;
  if (stalled !== null && !state.stallTold && (isLong || state.halted !== null)) {
    state.stallTold = true;
    run.meter.stalls.add();
    log.error({ event: 'chain.stalled', chain, reason: stalled, cursorSlot, lagSlots }, 'following stands still');
  } else if (stalled === null && state.stallTold) {
    state.stallTold = false;
    log.info({ event: 'chain.resumed', chain, cursorSlot }, 'following goes on');
  }
}
