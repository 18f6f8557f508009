import { codeOf, messageOf } from '../lib/coded-error.ts';
import type { BlockProcessor } from '../plugin/plugin.ts';
import { backoffMs } from '../runtime/waiting.ts';
import { describeFault, faultOfProcessor, stackOf } from './faults.ts';
import { CatchUpLane } from './lane.ts';
import type { Run } from './run.ts';
import type { FollowState } from './state.ts';

const PAUSES_PER_HOLD = 20;

/** Brings one processor from its own cursor to the chain's, block by block, and joins it there. Errors go to `onError`. */
export async function catchUp(
  run: Run,
  processor: BlockProcessor,
  onError: (error: unknown) => void,
  fromSlot?: number,
): Promise<void> {
  const { state, signal, clock, random } = run;
  const lane = new CatchUpLane(run, processor, fromSlot ?? processor.startSlot ?? 0);
  let failures = 0;
  while (!signal.aborted && state.catchingUp.includes(processor)) {
    const startedAt = clock.monotonic();
    try {
      const acted = state.started && state.halted === null && !state.draining && (await lane.step());
      failures = 0;
      if (!acted) await lane.wait();
    } catch (error) {
      if (signal.aborted) break;
      failures += 1;
      reportFailure(run, processor, error, failures);
      onError(error);
      // While a processor hangs no one else can write: that must stay a small part of the time.
      const heldMs = faultOfProcessor(error) === null ? 0 : clock.monotonic() - startedAt;
      await clock.sleep(backoffMs(failures, random) + heldMs * PAUSES_PER_HOLD, signal).catch(() => undefined);
    }
  }
  state.lanes.delete(processor.name);
  run.shared.trim();
  run.wake.wake();
  await lane.settled();
}

function reportFailure(
  { state, follow, log, chain, meter }: Run,
  processor: BlockProcessor,
  error: unknown,
  failures: number,
) {
  const { name } = processor;
  const facts = { chain, processor: name, code: codeOf(error), error: messageOf(error), failures };
  const fault = faultOfProcessor(error);
  if (fault === null) return log.warn(facts, 'catching up failed');
  meter.processorFailures.with(fault.plugin).add();
  const lane = state.lanes.get(name);
  if (lane !== undefined) lane.movedAt = Number.NEGATIVE_INFINITY;
  (follow.onError === 'skip-plugin' ? state.leftBehind : state.laneTrouble).set(name, describeFault(fault));
  // It fails until somebody looks at it: logged at powers of two.
  if ((failures & (failures - 1)) === 0)
    log.error({ ...facts, ...fault, stack: stackOf(error) }, 'a block processor fails');
}

/** How many readers still need the block of a slot: the chain, lanes, open gaps. */
export function readersOf({ cursor, lanes, gaps }: FollowState, slot: number): number {
  const isBelow = (at: number | null) => at === null || at < slot;
  const behind = [...lanes.values()].filter((lane) => isBelow(lane.slot)).length;
  const missing = gaps.filter(
    ({ fromSlot, toSlot, filledTo }) => fromSlot <= slot && slot <= toSlot && isBelow(filledTo),
  ).length;
  return behind + missing + (isBelow(cursor?.slot ?? null) ? 1 : 0);
}
