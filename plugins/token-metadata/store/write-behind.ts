import type { Clock } from '../../../src/ports/clock.ts';
import type { Log } from '../../../src/ports/log.ts';
import type { Store, StoreTx } from '../../../src/ports/store.ts';

/** Collects rows and writes them together a little later: nobody waits for a cache to be written. */
export interface WriteBehind<Row> {
  /** A later row of the same key replaces the earlier one. Dropped when too many wait. */
  add(key: string, row: Row): void;
  /** Writes what waits now. */
  flush(): Promise<void>;
  stop(): Promise<void>;
}

export interface WriteBehindParts<Row> {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  /** What is written, for the log. */
  readonly what: string;
  readonly write: (tx: StoreTx, rows: readonly Row[]) => Promise<void>;
}

const PAUSE_MS = 200;
const MAX_ROWS = 5_000;

export function createWriteBehind<Row>({ store, clock, log, what, write }: WriteBehindParts<Row>): WriteBehind<Row> {
  let rows = new Map<string, Row>();
  let cancel: (() => void) | null = null;
  let writing: Promise<void> = Promise.resolve();
  let stopped = false;

  async function writeNow(): Promise<void> {
    if (rows.size === 0) return;
    const batch = [...rows.values()];
    rows = new Map();
    try {
      await store.write((tx) => write(tx, batch));
    } catch (error) {
      // A cache: what is not kept is read again.
      log.warn({ err: error, rows: batch.length }, `${what} were not kept`);
    }
  }

  const flush = (): Promise<void> => {
    cancel?.();
    cancel = null;
    writing = writing.then(writeNow);
    return writing;
  };

  return {
    add(key, row) {
      if (stopped || (rows.size >= MAX_ROWS && !rows.has(key))) return;
      rows.set(key, row);
      cancel ??= clock.timeout(PAUSE_MS, () => void flush());
    },
    flush,
    stop() {
      stopped = true;
      return flush();
    },
  };
}
