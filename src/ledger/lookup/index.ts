import type { ChainId } from '../../ports/chain.ts';
import type { Log } from '../../ports/telemetry.ts';
import { createMutex } from '../../runtime/semaphore.ts';
import { ledgerFailed, type OpenFiles } from '../files.ts';
import type { BlockRows } from '../rows.ts';
import { createCoverage } from './coverage.ts';
import { createLookUps } from './look-ups.ts';
import { createRuns } from './runs.ts';
import { type IndexedBlocks, newIndexState } from './state.ts';

export interface IndexOptions {
  readonly dir: string;
  readonly chain: ChainId;
  readonly blocks: IndexedBlocks;
  readonly files: OpenFiles;
  readonly log: Log;
  /** Without an index signatures are searched in all blocks. */
  readonly index: IndexMode;
  /** Whether this thread may change files; only one may. */
  readonly isWriter: boolean;
  /** Final blocks in memory before they become a run; default 256. */
  readonly flushBlocks?: number;
}

/** Setting `ledger.index`. `followed` indexes only signatures, since the store has the rows of followed addresses. */
export type IndexMode = 'none' | 'followed' | 'window';

export type LedgerIndex = ReturnType<typeof createIndex>;

/**
 * The index of a ledger: rows of the newest blocks are in memory, all others in runs. A row is valid only if the hash of its block is the
 * hash that the ledger has for this slot, so cuts, forks and removed files need no change of the index.
 */
export function createIndex({ dir, chain, blocks, files, log, index, isWriter, flushBlocks }: IndexOptions) {
  const isOn = index !== 'none';
  const hasAddresses = index === 'window';
  const state = newIndexState();
  const coverage = createCoverage(state, { blocks, hasAddresses, isWriter });
  const runs = createRuns(state, {
    dir,
    chain,
    blocks,
    coverage,
    files,
    log,
    isOn,
    hasAddresses,
    isWriter,
    flushBlocks,
  });
  const { page, find } = createLookUps(state, { blocks, coverage, runs, hasAddresses });
  const exclusive = createMutex();

  /** Adds blocks that are not covered, newest first, at most so many. Returns how many. Errors: LEDGER_IO. */
  const cover = async (limit: number): Promise<number> => (isOn ? await coverage.cover(limit) : 0);

  return {
    /** Sees the runs that are there, and adds newest blocks that they lack. `listed`: as for `findRuns`. Errors: LEDGER_IO. */
    async refresh(limit: number, listed?: readonly string[]): Promise<number> {
      if (!isOn) return 0;
      try {
        await runs.findRuns(listed);
        coverage.forgetVoid();
        return await coverage.cover(limit);
      } catch (error) {
        throw ledgerFailed('read', error);
      }
    },
    cover,
    add(slot: number, hash: number, rows: BlockRows): void {
      if (isOn) coverage.put(slot, hash, rows);
    },
    forgetVoid: coverage.forgetVoid,
    /** Moves final blocks from memory to a run when there are enough of them, or `isAll`. Errors: LEDGER_IO, LEDGER_FULL. */
    flush: (isAll = false) =>
      exclusive(async () => {
        await runs.flush(isAll).catch((error: unknown) => {
          throw ledgerFailed('write', error);
        });
      }),
    /** Removes runs whose blocks are all below the slot. Errors: those of the file system. */
    retain: (oldest: number) => exclusive(() => runs.retain(oldest)),
    clean: runs.clean,
    isWhole: () => state.isWhole,
    bytes: () => state.runs.reduce((sum, { bytes }) => sum + bytes, 0),
    rowCount: () =>
      state.runs.reduce((sum, { rowCount }) => sum + rowCount, 0) +
      [...state.tail.values()].reduce((sum, { count }) => sum + count, 0),
    page,
    range: coverage.range,
    find,
  };
}
