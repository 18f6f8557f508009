import type Database from 'better-sqlite3';

interface WalState {
  readonly log: number;
  readonly checkpointed: number;
}

/** A checkpoint that a reader held up is tried again after this many further pages, not after each commit. */
const RETRY_PAGES = 1_024;

/**
 * Moves the write-ahead log into the database between transactions once it holds more than `limitBytes`, so that no commit
 * carries a checkpoint. Returns a function to be called after each commit.
 */
export function createCheckpointer(db: Database.Database, limitBytes: number): () => void {
  const pageBytes = db.pragma('page_size', { simple: true }) as number;
  const limitPages = Math.max(1, Math.floor(limitBytes / pageBytes));
  // NOOP only reads the length of the log from shared memory.
  const look = db.prepare<[], WalState>('pragma wal_checkpoint(NOOP)');
  let nextAt = limitPages;
  return () => {
    const { log } = look.get() ?? { log: 0 };
    if (log < nextAt) {
      if (log < limitPages) nextAt = limitPages;
      return;
    }
    const [state] = db.pragma('wal_checkpoint(PASSIVE)') as WalState[];
    // All moved: the next transaction starts the log anew. Else readers still need the rest.
    const isDone = state === undefined || state.checkpointed >= state.log;
    nextAt = isDone ? limitPages : log + RETRY_PAGES;
  };
}
