import type { Clock } from '../../../../src/kernel/plugin.ts';
import type { AccountReader } from './account-reader.ts';

export interface SolRegistry {
  /** Whether .sol names are no longer those of the old registry. Rejects when the chain does not tell. */
  isCutOff(): Promise<boolean>;
}

const REMEMBERED_MS = 5_000;

/** `.sol` names moved to another program at a final slot: from there on an old owner must not be taken for the present one. */
export function createSolRegistry(reader: AccountReader, clock: Clock, cutOffSlot: number | null): SolRegistry {
  let isPast = false;
  let asked: { readonly answer: Promise<boolean>; readonly untilMs: number } | null = null;

  async function ask(slot: number): Promise<boolean> {
    // Final slots do not go back, so the answer stays once it is yes.
    isPast ||= (await reader.finalizedSlot()) >= slot;
    return isPast;
  }

  return {
    async isCutOff() {
      if (cutOffSlot === null || isPast) return isPast;
      const now = clock.monotonic();
      if (asked !== null && now < asked.untilMs) return asked.answer;
      const answer = ask(cutOffSlot);
      const mine = { answer, untilMs: now + REMEMBERED_MS };
      asked = mine;
      answer.catch(() => {
        if (asked === mine) asked = null;
      });
      return answer;
    },
  };
}
