import type { ChainReader } from '../../../src/kernel/plugin.ts';

/** Slots that the blocks may be behind the chain before the upstream is asked as well. */
const FRESH_SLOTS = 4;

/** Whether what came with the blocks is all that there is. */
export function isFresh(chain: ChainReader): boolean {
  const { lagSlots, stalled } = chain.status();
  return stalled === null && lagSlots !== null && lagSlots <= FRESH_SLOTS;
}
