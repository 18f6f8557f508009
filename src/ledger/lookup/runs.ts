import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { codeOf } from '../../lib/coded-error.ts';
import type { ChainId } from '../../ports/chain.ts';
import type { Log } from '../../ports/telemetry.ts';
import { ledgerFailed, listFiles, type OpenFiles, RUN_NAME, syncFolder } from '../files.ts';
import {
  entriesOfBlocks,
  hasBlock,
  type IndexRow,
  type IndexRun,
  joinBlocks,
  mergedEntries,
  openRun,
  type RowQuery,
  readRun,
  writeRun,
} from '../run.ts';
import type { Coverage } from './coverage.ts';
import { type IndexedBlocks, type IndexState, lookAgain } from './state.ts';

const SIGNATURES_SUFFIX = '.signatures.run';

/** Final blocks in memory, and their rows, before they become a run. */
const FLUSH_BLOCKS = 256;
const FLUSH_ROWS = 400_000;
/** This many runs of one level are merged into one of the next. */
const FAN_IN = 8;
const HIGHEST_LEVEL = 3;

interface RunParts {
  readonly dir: string;
  readonly chain: ChainId;
  readonly blocks: IndexedBlocks;
  readonly coverage: Coverage;
  readonly files: OpenFiles;
  readonly log: Log;
  readonly isOn: boolean;
  readonly hasAddresses: boolean;
  readonly isWriter: boolean;
  readonly flushBlocks?: number | undefined;
}

export type Runs = ReturnType<typeof createRuns>;

/** The files of the index: found, read, written, merged and removed. */
export function createRuns(state: IndexState, parts: RunParts) {
  const { dir, chain, blocks, coverage, files, log, isOn, hasAddresses, isWriter } = parts;
  const flushBlocks = parts.flushBlocks ?? FLUSH_BLOCKS;
  /** A run without addresses is never taken for one with them. */
  const suffix = hasAddresses ? '.run' : SIGNATURES_SUFFIX;
  const isOwn = (name: string) => name.endsWith(SIGNATURES_SUFFIX) !== hasAddresses;

  const rowsIn = (run: IndexRun, query: Omit<RowQuery, 'counts'>) => {
    const counts = ({ slot }: IndexRow) => {
      const hash = blocks.hashAt(slot);
      return hash >= 0 && hasBlock(run, slot, hash);
    };
    return readRun(run, { ...query, counts }, files).catch((error: unknown) => lost(run, error));
  };

  /** A damaged run is not used again. */
  function lost(run: IndexRun, error: unknown): never {
    if (codeOf(error) === 'LEDGER_DAMAGED') void discard(run);
    throw error;
  }

  async function discard(run: IndexRun): Promise<void> {
    log.error({ chain, file: run.path }, 'a file of the index is damaged; the writer rebuilds it from the blocks');
    state.damaged.add(run.path);
    dropRuns([run]);
    lookAgain(state);
    if (isWriter) await rm(run.path, { force: true }).catch(() => undefined);
  }

  function dropRuns(dropped: readonly IndexRun[]): void {
    state.runs = state.runs.filter((run) => !dropped.includes(run));
  }

  /** Again when files were replaced meanwhile. */
  async function retried<T>(task: () => Promise<T>): Promise<T> {
    for (let tries = 0; ; tries++) {
      const before = state.runs;
      try {
        return await task();
      } catch (error) {
        if (codeOf(error) === 'LEDGER_DAMAGED') throw error;
        if (codeOf(error) !== 'ENOENT' || tries >= 3) throw ledgerFailed('read', error);
        if (state.runs === before) await findRuns();
      }
    }
  }

  /** Sees the runs that are there now. `listed`: all names, when they were just read. Errors: those of the file system. */
  async function findRuns(listed?: readonly string[]): Promise<void> {
    const all = (listed ?? (await listFiles(dir)).runs).filter(isOwn);
    const names = all.filter((name) => !state.damaged.has(join(dir, name)));
    const known = new Map(state.runs.map((run) => [run.path, run]));
    const found: IndexRun[] = [];
    let isChanged = names.length !== state.runs.length;
    for (const name of names) {
      const path = join(dir, name);
      state.nextNumber = Math.max(state.nextNumber, Number(RUN_NAME.exec(name)![1]) + 1);
      const run =
        known.get(path) ??
        (await openRun(path).catch((error: unknown) => {
          if (codeOf(error) === 'ENOENT') return null;
          throw error;
        }));
      if (!known.has(path)) isChanged = true;
      if (run !== null && run.slots.length > 0) found.push(run);
      else if (run === null && isWriter) await rm(path, { force: true });
    }
    if (!isChanged) return;
    const gone = state.runs.filter((run) => !found.includes(run));
    state.runs = found;
    const isCoveredStill = ({ slots, hashes }: IndexRun) =>
      slots.every((slot, at) => blocks.hashAt(slot) !== hashes[at] || coverage.isCovered(slot, hashes[at]!));
    if (!gone.every(isCoveredStill)) lookAgain(state);
    for (const [slot, { hash }] of state.tail)
      if (state.runs.some((run) => hasBlock(run, slot, hash))) state.tail.delete(slot);
  }

  const pathOf = (number: number) => join(dir, `${String(number).padStart(10, '0')}${suffix}`);

  async function flush(isAll: boolean): Promise<void> {
    const final = [...state.tail]
      .filter(([slot, { hash }]) => slot <= blocks.finalSlot && blocks.hashAt(slot) === hash)
      .sort(([a], [b]) => a - b);
    const rows = final.reduce((sum, [, { count }]) => sum + count, 0);
    if (final.length === 0 || (!isAll && final.length < flushBlocks && rows < FLUSH_ROWS)) return;
    const set = { slots: final.map(([slot]) => slot), hashes: final.map(([, { hash }]) => hash) };
    const rest = () => new Promise<void>((resolve) => void setImmediate(resolve));
    const entries = entriesOfBlocks(
      final.map(([slot, block]) => [slot, block.rows]),
      rest,
    );
    const run = await writeRun(pathOf(state.nextNumber++), 0, set, entries);
    await syncFolder(dir);
    state.runs = [...state.runs, run];
    for (const [slot, block] of final) if (state.tail.get(slot) === block) state.tail.delete(slot);
    await mergeRuns();
  }

  async function mergeRuns(): Promise<void> {
    for (let level = 0; level < HIGHEST_LEVEL; level++) {
      const chosen = state.runs.filter((run) => run.level === level);
      if (chosen.length < FAN_IN) continue;
      try {
        const merged = await writeRun(pathOf(state.nextNumber++), level + 1, joinBlocks(chosen), mergedEntries(chosen));
        await syncFolder(dir);
        state.runs = [...state.runs.filter((run) => !chosen.includes(run)), merged];
      } catch (error) {
        if (codeOf(error) !== 'LEDGER_DAMAGED') throw error;
        const path = (error as { facts?: { path?: unknown } }).facts?.path;
        for (const run of chosen) if (run.path === path) await discard(run);
        return;
      }
      for (const run of chosen) await rm(run.path, { force: true });
    }
  }

  /** Removes runs whose blocks are all below the slot. Errors: those of the file system. */
  async function retain(oldest: number): Promise<void> {
    const old = state.runs.filter((run) => run.slots.at(-1)! < oldest);
    dropRuns(old);
    for (const run of old) await rm(run.path, { force: true });
  }

  /** Removes files that a crash left incomplete, and runs of another `ledger.index`. Errors: those of the file system. */
  async function clean(): Promise<void> {
    const isOld = (name: string) => name.endsWith('.run.tmp') || (isOn && RUN_NAME.test(name) && !isOwn(name));
    for (const name of await readdir(dir)) if (isOld(name)) await rm(join(dir, name), { force: true });
  }

  return { rowsIn, retried, findRuns, flush, retain, clean };
}
