import type { ChainReader } from '../../../src/ports/chain.ts';
import type { Clock } from '../../../src/ports/clock.ts';
import type { Log } from '../../../src/ports/log.ts';
import type { Store } from '../../../src/ports/store.ts';
import type { MintIndex } from './mint-index.ts';
import { tellChanges } from './processor.ts';

/** Looks for rows that came too late to be matched with the last blocks while no other one comes: a chain may stand still. */
export interface QuietLook {
  start(): void;
  stop(): void;
}

export interface QuietLookParts {
  readonly mints: MintIndex;
  readonly chain: Pick<ChainReader, 'status'>;
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
}

const EVERY_MS = 1_000;

export function createQuietLook({ mints, chain, store, clock, log }: QuietLookParts): QuietLook {
  let lastSlot: number | null = null;
  let cancel = (): void => {};
  let stopped = false;

  async function look(): Promise<void> {
    const { cursorSlot, isStandby } = chain.status();
    const isQuiet = cursorSlot === lastSlot;
    lastSlot = cursorSlot;
    // Where blocks come, the next one looks.
    if (cursorSlot === null || !isQuiet || isStandby === true) return;
    const late = await mints.unmatched(store.read, cursorSlot);
    if (late.length > 0 && !stopped) await store.write((tx) => tellChanges(tx, late, cursorSlot));
  }

  function next(): void {
    if (stopped) return;
    cancel = clock.timeout(EVERY_MS, () => {
      look()
        .catch((error: unknown) => log.warn({ err: error }, 'facts of mints that came late cannot be looked up'))
        .finally(next);
    });
  }

  return {
    start: next,
    stop() {
      stopped = true;
      cancel();
    },
  };
}
