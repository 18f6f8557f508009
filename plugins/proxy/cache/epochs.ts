import { type EpochSchedule, epochOf, isEpochSchedule } from '../../../src/lib/epoch-schedule.ts';
import type { ChainReader, Clock } from '../../../src/plugin/plugin.ts';
import { OWN_WORK } from '../../../src/ports/access.ts';

/** Epochs of a chain, by its schedule, which is asked for once. */
export interface Epochs {
  /** Null until the schedule of the chain is known; calling it starts the look-up. `chain`: names it. */
  of(chain: string, slot: number): number | null;
}

const ASK_AGAIN_MS = 5_000;
const ASK_TIMEOUT_MS = 10_000;

export function createEpochs(reader: Pick<ChainReader, 'call'> | null, clock: Pick<Clock, 'monotonic'>): Epochs {
  let known: { readonly chain: string; readonly schedule: EpochSchedule } | null = null;
  let askedAt = Number.NEGATIVE_INFINITY;

  async function learn(chain: string): Promise<void> {
    const answer = await reader?.call<unknown>('getEpochSchedule', [], { tenant: OWN_WORK, timeoutMs: ASK_TIMEOUT_MS });
    if (isEpochSchedule(answer)) known = { chain, schedule: answer };
  }

  return {
    of(chain, slot) {
      if (known?.chain === chain) return epochOf(known.schedule, slot);
      if (clock.monotonic() - askedAt < ASK_AGAIN_MS) return null;
      askedAt = clock.monotonic();
      // A node that does not tell now is asked again by a later call.
      learn(chain).catch(() => undefined);
      return null;
    },
  };
}
