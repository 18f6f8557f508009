import type { Clock } from '../../src/ports/clock.ts';
import type { Log } from '../../src/ports/log.ts';
import type { DocumentStore } from './store/document-store.ts';
import type { MintStore } from './store/mint-store.ts';

export interface Upkeep {
  start(): void;
  stop(): void;
}

export interface UpkeepParts {
  readonly documents: DocumentStore;
  readonly mints: MintStore;
  readonly factsTtlMs: number;
  readonly clock: Clock;
  readonly log: Log;
}

const PRUNE_MS = 600_000;

/** Removes what no longer counts from the store, every ten minutes. */
export function createUpkeep({ documents, mints, factsTtlMs, clock, log }: UpkeepParts): Upkeep {
  let cancel = (): void => {};
  let stopped = false;

  async function prune(): Promise<void> {
    try {
      await documents.prune();
      await mints.prune(clock.now() - factsTtlMs);
    } catch (error) {
      log.warn({ err: error }, 'old rows were not removed');
    }
  }

  function arm(): void {
    cancel = clock.timeout(PRUNE_MS, async () => {
      await prune();
      if (!stopped) arm();
    });
  }

  return {
    start: arm,
    stop() {
      stopped = true;
      cancel();
    },
  };
}
