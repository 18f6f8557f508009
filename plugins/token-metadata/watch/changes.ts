import type { ChainReader } from '../../../src/ports/chain.ts';
import type { Clock } from '../../../src/ports/clock.ts';
import type { Log } from '../../../src/ports/log.ts';
import type { Store } from '../../../src/ports/store.ts';
import type { Db } from '../store/tables.ts';

/** Brings what the block processor found to the memory of this thread. */
export interface Changes {
  start(): Promise<void>;
  stop(): void;
}

export interface ChangesParts {
  readonly chain: ChainReader;
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  /** Told of mints whose accounts were written to, and the slot. */
  readonly onChanged: (mints: readonly string[], slot: number) => void;
}

const PAUSE_MS = 100;
/** Not every change comes with a block, and hints get lost. */
const EVERY_MS = 1_000;
const PER_QUERY = 1_000;

/** Looks after each released block, at most ten times a second, and each second. */
export function createChanges({ chain, store, clock, log, onChanged }: ChangesParts): Changes {
  let lastId = 0;
  let off = (): void => {};
  let cancel: (() => void) | null = null;
  let dueMs = 0;
  let stopped = false;

  const rows = () =>
    (store.read as Db)
      .selectFrom('token_metadata_changes')
      .selectAll()
      .where('id', '>', lastId)
      .orderBy('id')
      .limit(PER_QUERY)
      .execute();

  async function look(): Promise<void> {
    for (let found = await rows(); found.length > 0 && !stopped; found = await rows()) {
      for (const { id, mint, slot } of found) {
        onChanged([mint], slot);
        lastId = Math.max(lastId, id);
      }
      if (found.length < PER_QUERY) return;
    }
  }

  function lookIn(ms: number): void {
    if (stopped) return;
    cancel?.();
    dueMs = clock.monotonic() + ms;
    cancel = clock.timeout(ms, () => {
      lookIn(EVERY_MS);
      look().catch((error: unknown) => log.warn({ err: error }, 'changes of mints cannot be looked up'));
    });
  }
  const soon = (): void => {
    if (dueMs - clock.monotonic() > PAUSE_MS) lookIn(PAUSE_MS);
  };

  return {
    async start() {
      const newest = await (store.read as Db)
        .selectFrom('token_metadata_changes')
        .select(({ fn }) => fn.max('id').as('id'))
        .executeTakeFirst();
      lastId = Number(newest?.id ?? 0);
      lookIn(EVERY_MS);
      off = chain.onReleased(soon);
    },
    stop() {
      stopped = true;
      off();
      cancel?.();
    },
  };
}
