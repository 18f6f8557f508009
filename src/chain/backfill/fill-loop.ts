import { isLagBeyond } from '../../lib/chain-lag.ts';
import { codeOf, messageOf } from '../../lib/coded-error.ts';
import { backoffMs } from '../../runtime/backoff.ts';
import { tendSkipped } from '../faulty-processor.ts';
import { countGaps } from '../gap-count.ts';
import type { Run } from '../run.ts';
import type { FillOptions } from './contract.ts';
import { createFillSchedule } from './fill-schedule.ts';

const LOOK_MS = 2_000;

/** Fills gaps beside the following, which always comes first. Errors go to `onError`. */
export async function fillLoop(run: Run, onError: (error: unknown) => void): Promise<void> {
  const { signal, clock, random, log, state, store, chain, follow } = run;
  const isAutomatic = follow.gapBackfill.enabled;
  const schedule = createFillSchedule(fillOptions(run), ({ wantedAt }) => isAutomatic || wantedAt !== null);
  let failures = 0;
  while (!signal.aborted) {
    try {
      await tendSkipped(run);
      const hasWorked = await schedule.pass();
      failures = 0;
      await countGaps(store.read, chain, state);
      if (!hasWorked) await clock.sleep(LOOK_MS, signal);
    } catch (error) {
      if (signal.aborted) return;
      failures += 1;
      onError(error);
      log.warn({ chain, code: codeOf(error), error: messageOf(error) }, 'gaps cannot be looked at');
      await clock.sleep(backoffMs(failures, random), signal).catch(() => undefined);
    }
  }
}

function fillOptions(run: Run): FillOptions {
  const { state, follow, source, meter } = run;
  const { chain, store, processors, clock, random, log, signal, turn } = run;
  return {
    ...{ chain, source, store, processors, follow, clock, random, log, signal, turn },
    forget: run.shared.forget,
    concurrency: follow.gapBackfill.concurrency,
    finalSlot: async () => await source.tip({ commitment: 'finalized', signal }),
    hindrance() {
      if (!state.begun || state.draining || state.halted !== null) return 'the chain is not followed now';
      if (source.isLimited?.() === true) return 'an upstream asks for fewer calls';
      const { maxLagSeconds: seconds, maxLagSlots: slots } = follow.gapBackfill;
      const lag = { lagSlots: (state.tip ?? 0) - (state.cursor?.slot ?? 0), slotMs: state.slotLength.ms() };
      return isLagBeyond(lag, { seconds, slots }) ? 'the chain is behind the tip' : null;
    },
    filled({ blocks, slots }) {
      meter.gapBlocks.add(blocks);
      meter.gapSlots.add(slots);
    },
  };
}
