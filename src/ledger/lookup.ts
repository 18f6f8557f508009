import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { encode64 } from '../lib/base58.ts';
import { codeOf } from '../lib/coded-error.ts';
import type { ChainId } from '../ports/chain.ts';
import type { AddressPage, AddressQuery, AddressRow, LedgerPlace } from '../ports/ledger.ts';
import type { Log } from '../ports/telemetry.ts';
import { createMutex } from '../runtime/semaphore.ts';
import { ledgerFailed, listFiles, type OpenFiles, RUN_NAME, syncFolder } from './files.ts';
import {
  type BlockRows,
  CHANGED,
  isLeftOut,
  KEY_ROWS,
  LOADED,
  OWNER_ROWS,
  rowKey,
  signatureName,
  signaturesOf,
  VOTE_ROWS,
} from './rows.ts';
import {
  entriesOfBlocks,
  hasBlock,
  type IndexRow,
  type IndexRun,
  isBefore,
  joinBlocks,
  mergedEntries,
  openRun,
  type RowQuery,
  readRun,
  writeRun,
} from './run.ts';

/**
 * The index of a ledger: rows of the newest blocks are in memory, all others in runs. A row is valid only if the hash of its block is the
 * hash that the ledger has for this slot, so cuts, forks and removed files need no change of the index.
 */

/** What the index reads from the segments. */
export interface IndexedBlocks {
  /** 48 bits of the hash of the block; -1 without a block. */
  hashAt(slot: number): number;
  /** Parent of a known block. */
  parentAt(slot: number): number;
  newest(): number;
  readonly finalSlot: number;
  /** All files, newest first. */
  segments(): Iterable<IndexedSegment>;
  /** From the block itself; null when it is unknown or damaged. Errors: LEDGER_IO. */
  rows(slot: number): Promise<BlockRows | null>;
  /** Details of some transactions of a block; null when the block is unknown. Errors: LEDGER_IO, LEDGER_DAMAGED. */
  details(slot: number, indexes: readonly number[]): Promise<BlockDetails | null>;
  /** Signature of a transaction; null when it is unknown. Errors: those of `details`. */
  signatureAt(slot: number, index: number): Promise<Uint8Array | null>;
  /** The index of a transaction in a block; -1 when it is not there. Errors: as `details`. */
  findIn(slot: number, signature: Uint8Array): Promise<number>;
}

interface IndexedSegment {
  readonly number: number;
  readonly isComplete: boolean;
  /** Changes with blocks that are written below others. */
  readonly outOfOrder: number;
  /** Newest first; some of them void, or replaced by later files. Usually only the first ones are looked at. */
  readonly slots: Iterable<number>;
}

export interface BlockDetails {
  readonly blockTime: number | null;
  readonly signatures: ReadonlyMap<number, Uint8Array>;
  readonly errors: ReadonlyMap<number, unknown>;
  readonly memos: ReadonlyMap<number, string>;
}

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

const SIGNATURES_SUFFIX = '.signatures.run';

export type LedgerIndex = ReturnType<typeof createIndex>;

/** Final blocks in memory, and their rows, before they become a run. */
const FLUSH_BLOCKS = 256;
const FLUSH_ROWS = 400_000;
/** Blocks in memory outside the thread that writes. */
const MAX_TAIL = 2_048;
/** This many runs of one level are merged into one of the next. */
const FAN_IN = 8;
const HIGHEST_LEVEL = 3;
/** Blocks that are read at once when they are added, and when a page is made. */
const BLOCKS_AT_ONCE = 8;

interface TailBlock {
  readonly hash: number;
  readonly rows: BlockRows;
  readonly count: number;
}

export function createIndex({ dir, chain, blocks, files, log, index, isWriter, ...options }: IndexOptions) {
  const isOn = index !== 'none';
  const hasAddresses = index === 'window';
  /** A run without addresses is never taken for one with them. */
  const suffix = hasAddresses ? '.run' : SIGNATURES_SUFFIX;
  const isOwn = (name: string) => name.endsWith(SIGNATURES_SUFFIX) !== hasAddresses;
  const flushBlocks = options.flushBlocks ?? FLUSH_BLOCKS;
  const tail = new Map<number, TailBlock>();
  let runs: readonly IndexRun[] = [];
  let nextNumber = 1;
  const exclusive = createMutex();
  /** The range that the last look-up found complete. */
  let complete: { readonly from: number; readonly to: number; readonly hash: number } | null = null;
  const damaged = new Set<string>();
  /** By segment: the newest block up to which all are covered. */
  const scanned = new Map<string, { readonly slot: number; readonly hash: number }>();
  /** Every block was covered when they were looked at the last time; later ones were added. */
  let isWhole = false;
  /** Blocks that could not be added, by slot and hash: they are not tried again. */
  const failed = new Map<number, number>();

  const isCovered = (slot: number, hash: number) =>
    tail.get(slot)?.hash === hash || runs.some((run) => hasBlock(run, slot, hash));

  /** The lowest block at or above a slot, which is below another block. */
  function lowestFrom(slot: number, below: number): number {
    for (let at = slot; at < below; at++) if (blocks.hashAt(at) >= 0) return at;
    return below;
  }

  /** The newest range of slots in which every block is covered. */
  function range(): { readonly from: number; readonly to: number } | null {
    let slot = blocks.newest();
    const covered = () => {
      const hash = blocks.hashAt(slot);
      return hash >= 0 && isCovered(slot, hash);
    };
    while (slot >= 0 && !covered()) slot = blocks.hashAt(slot) < 0 ? -1 : blocks.parentAt(slot);
    if (slot < 0) return null;
    const to = slot;
    let from = slot;
    while (covered()) {
      // In a range that was complete before, only blocks that are not final may have changed.
      const before = complete;
      const isKnown =
        before !== null &&
        slot <= before.to &&
        slot > before.from &&
        (slot <= blocks.finalSlot || (slot === before.to && blocks.hashAt(slot) === before.hash));
      from = slot;
      // The retention may have removed the lowest of them.
      const parent = isKnown ? lowestFrom(before.from, slot) : blocks.parentAt(slot);
      if (parent >= slot) break;
      slot = parent;
    }
    complete = { from, to, hash: blocks.hashAt(to) };
    return { from, to };
  }

  /** The rows of a name in memory, within the range of the query, in no order. */
  function rowsInTail({ name, above, below }: Omit<RowQuery, 'counts'>): IndexRow[] {
    const found: IndexRow[] = [];
    for (const [slot, { hash, rows }] of tail) {
      if (slot < above.slot || slot > below.slot || blocks.hashAt(slot) !== hash) continue;
      for (const row of rowsIn(rows, name)) {
        const place = { slot, index: Math.floor(row / 16), flags: row % 16 };
        if (isBefore(above, place) && isBefore(place, below)) found.push(place);
      }
    }
    return found;
  }

  const rowsInRun = (run: IndexRun, query: Omit<RowQuery, 'counts'>) => {
    const counts = ({ slot }: IndexRow) => {
      const hash = blocks.hashAt(slot);
      return hash >= 0 && hasBlock(run, slot, hash);
    };
    return readRun(run, { ...query, counts }, files).catch((error: unknown) => lost(run, error));
  };

  /** The first rows of a name, of all runs and of memory, in the order of the query. */
  async function rowsOfName(query: Omit<RowQuery, 'counts'>): Promise<IndexRow[]> {
    const { order, above, below, limit } = query;
    const isNewest = order === 'newest';
    const inOrder = (a: LedgerPlace, b: LedgerPlace) => (isBefore(a, b) === isNewest ? 1 : -1);
    let found = rowsInTail(query).sort(inOrder).slice(0, limit);
    const behind = (run: IndexRun) => (isNewest ? run.slots.at(-1)! : run.slots[0]!);
    const sorted = runs.toSorted((a, b) => (isNewest ? behind(b) - behind(a) : behind(a) - behind(b)));
    for (const run of sorted) {
      if (run.slots.at(-1)! < above.slot || run.slots[0]! > below.slot) continue;
      const last = found.length < limit ? null : found.at(-1)!.slot;
      if (last !== null && (isNewest ? behind(run) < last : behind(run) > last)) break;
      const more = await rowsInRun(run, query);
      if (more.length > 0) found = distinct([...found, ...more].sort(inOrder)).slice(0, limit);
    }
    return found;
  }

  /** A damaged run is not used again. */
  function lost(run: IndexRun, error: unknown): never {
    if (codeOf(error) === 'LEDGER_DAMAGED') void discard(run);
    throw error;
  }

  async function discard(run: IndexRun): Promise<void> {
    log.error({ chain, file: run.path }, 'a file of the index is damaged; the writer rebuilds it from the blocks');
    damaged.add(run.path);
    dropRuns([run]);
    lookAgain();
    if (isWriter) await rm(run.path, { force: true }).catch(() => undefined);
  }

  function dropRuns(dropped: readonly IndexRun[]): void {
    runs = runs.filter((run) => !dropped.includes(run));
  }

  /** Some blocks are no longer covered. */
  function lookAgain(): void {
    complete = null;
    isWhole = false;
    scanned.clear();
  }

  /** Again when files were replaced meanwhile. */
  async function retried<T>(task: () => Promise<T>): Promise<T> {
    for (let tries = 0; ; tries++) {
      const before = runs;
      try {
        return await task();
      } catch (error) {
        if (codeOf(error) === 'LEDGER_DAMAGED') throw error;
        if (codeOf(error) !== 'ENOENT' || tries >= 3) throw ledgerFailed('read', error);
        if (runs === before) await findRuns();
      }
    }
  }

  /** Sees the runs that are there now. `listed`: all names, when they were just read. Errors: those of the file system. */
  async function findRuns(listed?: readonly string[]): Promise<void> {
    const all = (listed ?? (await listFiles(dir)).runs).filter(isOwn);
    const names = all.filter((name) => !damaged.has(join(dir, name)));
    const known = new Map(runs.map((run) => [run.path, run]));
    const found: IndexRun[] = [];
    let isChanged = names.length !== runs.length;
    for (const name of names) {
      const path = join(dir, name);
      nextNumber = Math.max(nextNumber, Number(RUN_NAME.exec(name)![1]) + 1);
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
    const gone = runs.filter((run) => !found.includes(run));
    runs = found;
    const isCoveredStill = ({ slots, hashes }: IndexRun) =>
      slots.every((slot, at) => blocks.hashAt(slot) !== hashes[at] || isCovered(slot, hashes[at]!));
    if (!gone.every(isCoveredStill)) lookAgain();
    for (const [slot, { hash }] of tail) if (runs.some((run) => hasBlock(run, slot, hash))) tail.delete(slot);
  }

  function put(slot: number, hash: number, all: BlockRows): void {
    const rows = hasAddresses ? all : signaturesOf(all);
    tail.set(slot, { hash, rows, count: rows.rows.reduce((sum, list) => sum + list.length, 0) });
  }

  /** Adds blocks that are not covered, newest first, at most so many. Returns how many. Errors: LEDGER_IO. */
  async function cover(limit: number): Promise<number> {
    if (!isOn) return 0;
    const room = isWriter ? limit : Math.min(limit, MAX_TAIL - tail.size);
    const wanted: [number, number][] = [];
    const seen = new Set<number>();
    let isRest = false;
    for (const { number, outOfOrder, isComplete, slots } of blocks.segments()) {
      const name = `${number} ${outOfOrder} ${isComplete}`;
      const known = scanned.get(name);
      let newest: number | undefined;
      for (const slot of slots) {
        newest ??= slot;
        const hash = blocks.hashAt(slot);
        if (slot === known?.slot && hash === known.hash) break;
        if (hash < 0 || seen.has(slot) || failed.get(slot) === hash || isCovered(slot, hash)) continue;
        if (wanted.length >= room) {
          isRest = true;
          break;
        }
        seen.add(slot);
        wanted.push([slot, hash]);
      }
      if (isRest) break;
      if (newest !== undefined) scanned.set(name, { slot: newest, hash: blocks.hashAt(newest) });
    }
    for (let at = 0; at < wanted.length; at += BLOCKS_AT_ONCE)
      await Promise.all(
        wanted.slice(at, at + BLOCKS_AT_ONCE).map(async ([slot, hash]) => {
          const rows = await blocks.rows(slot);
          if (rows === null) failed.set(slot, hash);
          else if (blocks.hashAt(slot) === hash) put(slot, hash, rows);
        }),
      );
    isWhole = !isRest;
    return wanted.length;
  }

  function forgetVoid(): void {
    for (const [slot, { hash }] of tail) if (blocks.hashAt(slot) !== hash) tail.delete(slot);
  }

  const pathOf = (number: number) => join(dir, `${String(number).padStart(10, '0')}${suffix}`);

  async function flush(isAll: boolean): Promise<void> {
    const final = [...tail]
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
    const run = await writeRun(pathOf(nextNumber++), 0, set, entries);
    await syncFolder(dir);
    runs = [...runs, run];
    for (const [slot, block] of final) if (tail.get(slot) === block) tail.delete(slot);
    await mergeRuns();
  }

  async function mergeRuns(): Promise<void> {
    for (let level = 0; level < HIGHEST_LEVEL; level++) {
      const chosen = runs.filter((run) => run.level === level);
      if (chosen.length < FAN_IN) continue;
      try {
        const merged = await writeRun(pathOf(nextNumber++), level + 1, joinBlocks(chosen), mergedEntries(chosen));
        await syncFolder(dir);
        runs = [...runs.filter((run) => !chosen.includes(run)), merged];
      } catch (error) {
        if (codeOf(error) !== 'LEDGER_DAMAGED') throw error;
        const path = (error as { facts?: { path?: unknown } }).facts?.path;
        for (const run of chosen) if (run.path === path) await discard(run);
        return;
      }
      for (const run of chosen) await rm(run.path, { force: true });
    }
  }

  /** The contents of a row besides its position. */
  async function withDetails(places: readonly (IndexRow & Reasons)[]): Promise<AddressRow[]> {
    const slots = [...new Set(places.map(({ slot }) => slot))];
    const indexes = (of: number) => places.flatMap(({ slot, index }) => (slot === of ? [index] : []));
    const details = new Map<number, BlockDetails | null>();
    for (let at = 0; at < slots.length; at += BLOCKS_AT_ONCE)
      await Promise.all(
        slots
          .slice(at, at + BLOCKS_AT_ONCE)
          .map(async (slot) => void details.set(slot, await blocks.details(slot, indexes(slot)))),
      );
    const rows: AddressRow[] = [];
    for (const { slot, index, key, owner } of places) {
      const block = details.get(slot) ?? null;
      const signature = block?.signatures.get(index);
      // Removed by the retention, or cut, since it was found.
      if (block === null || signature === undefined) continue;
      rows.push({
        slot,
        index,
        key,
        owner,
        signature: encode64(signature),
        blockTime: block.blockTime,
        isFinal: slot <= blocks.finalSlot,
        err: block.errors.get(index) ?? null,
        memo: block.memos.get(index) ?? null,
      });
    }
    return rows;
  }

  async function page(query: AddressQuery): Promise<AddressPage | null> {
    if (!hasAddresses || isLeftOut(query.address)) return null;
    const found = range();
    if (found === null) return { rows: [], hasMore: false, from: 0, to: -1, inVotes: false };
    const { from, to } = found;
    const lowest = { slot: from, index: -1 };
    const highest = { slot: to, index: Number.POSITIVE_INFINITY };
    const above = query.above === undefined || isBefore(query.above, lowest) ? lowest : query.above;
    const below = query.below === undefined || isBefore(highest, query.below) ? highest : query.below;
    const { order, reasons } = query;
    const limit = query.limit + 1;
    const named = (kind: string) => rowKey(kind, query.address);
    const isNewest = order === 'newest';
    const places = new Map<string, IndexRow & Reasons>();
    const add = (row: IndexRow, reason: Partial<Reasons>) => {
      const name = `${row.slot} ${row.index}`;
      places.set(name, { key: null, owner: null, ...places.get(name), ...row, ...reason });
    };
    for (const row of await rowsOfName({ name: named(KEY_ROWS), order, above, below, limit }))
      add(row, { key: (row.flags & LOADED) === 0 ? 'static' : 'loaded' });
    if (reasons !== 'keys')
      for (const row of await ownerRows({ name: named(OWNER_ROWS), order, above, below, limit }, reasons === 'changed'))
        add(row, { owner: (row.flags & CHANGED) === 0 ? 'unchanged' : 'changed' });
    const sorted = [...places.values()].sort((a, b) => (isBefore(a, b) === isNewest ? 1 : -1)).slice(0, limit);
    const votes = await rowsOfName({ name: named(VOTE_ROWS), order, above: BOTTOM, below: TOP, limit: 1 });
    const rows = await withDetails(sorted.slice(0, query.limit));
    return { rows, hasMore: sorted.length > query.limit, from, to, inVotes: votes.length > 0 };
  }

  /** Rows of an owner; `isChanged`: only those in which a balance changed. */
  async function ownerRows(query: Omit<RowQuery, 'counts'>, isChanged: boolean): Promise<IndexRow[]> {
    const found: IndexRow[] = [];
    let { above, below } = query;
    for (;;) {
      const some = await rowsOfName({ ...query, above, below });
      found.push(...some.filter(({ flags }) => !isChanged || (flags & CHANGED) !== 0));
      if (some.length < query.limit || found.length >= query.limit) return found.slice(0, query.limit);
      if (query.order === 'newest') below = some.at(-1)!;
      else above = some.at(-1)!;
    }
  }

  return {
    /** Sees the runs that are there, and adds newest blocks that they lack. `listed`: as for `findRuns`. Errors: LEDGER_IO. */
    async refresh(limit: number, listed?: readonly string[]): Promise<number> {
      if (!isOn) return 0;
      try {
        await findRuns(listed);
        forgetVoid();
        return await cover(limit);
      } catch (error) {
        throw ledgerFailed('read', error);
      }
    },
    cover,
    add(slot: number, hash: number, rows: BlockRows): void {
      if (isOn) put(slot, hash, rows);
    },
    forgetVoid,
    /** Moves final blocks from memory to a run when there are enough of them, or `isAll`. Errors: LEDGER_IO, LEDGER_FULL. */
    flush: (isAll = false) =>
      exclusive(async () => {
        await flush(isAll).catch((error: unknown) => {
          throw ledgerFailed('write', error);
        });
      }),
    /** Removes runs whose blocks are all below the slot. Errors: LEDGER_IO. */
    retain: (oldest: number) =>
      exclusive(async () => {
        const old = runs.filter((run) => run.slots.at(-1)! < oldest);
        dropRuns(old);
        for (const run of old) await rm(run.path, { force: true });
      }),
    /** Removes files that a crash left incomplete, and runs of another `ledger.index`. Errors: those of the file system. */
    async clean(): Promise<void> {
      const isOld = (name: string) => name.endsWith('.run.tmp') || (isOn && RUN_NAME.test(name) && !isOwn(name));
      for (const name of await readdir(dir)) if (isOld(name)) await rm(join(dir, name), { force: true });
    },
    isWhole: () => isWhole,
    bytes: () => runs.reduce((sum, { bytes }) => sum + bytes, 0),
    rowCount: () =>
      runs.reduce((sum, { rowCount }) => sum + rowCount, 0) +
      [...tail.values()].reduce((sum, { count }) => sum + count, 0),
    page: (query: AddressQuery) => retried(() => page(query)),
    range,
    async find(signature: Uint8Array): Promise<LedgerPlace | null> {
      const name = signatureName(signature);
      const isRight = async ({ slot, index }: LedgerPlace) => {
        const found = await blocks.signatureAt(slot, index);
        return found !== null && Buffer.from(signature).equals(found);
      };
      const query = { name, order: 'newest', above: BOTTOM, below: TOP, limit: MAX_CANDIDATES } as const;
      // It is in one place, so what is behind that need not be read.
      const found = await retried(async () => {
        for (const { slot, index } of rowsInTail(query)) if (await isRight({ slot, index })) return { slot, index };
        for (const run of runs.toSorted((a, b) => b.slots.at(-1)! - a.slots.at(-1)!))
          for (const { slot, index } of await rowsInRun(run, query))
            if (await isRight({ slot, index })) return { slot, index };
        return null;
      });
      if (found !== null) return found;
      if (isWhole && failed.size === 0) return null;
      // Blocks that the index lacks.
      for (const { slots } of blocks.segments())
        for (const slot of slots) {
          const hash = blocks.hashAt(slot);
          if (hash < 0 || isCovered(slot, hash)) continue;
          const index = await blocks.findIn(slot, signature);
          if (index >= 0) return { slot, index };
        }
      return null;
    },
  };
}

interface Reasons {
  readonly key: AddressRow['key'];
  readonly owner: AddressRow['owner'];
}

const BOTTOM: LedgerPlace = { slot: -1, index: 0 };
const TOP: LedgerPlace = { slot: Number.MAX_SAFE_INTEGER, index: 0 };
/** Transactions whose signatures agree in eight bytes. */
const MAX_CANDIDATES = 64;

function rowsIn({ names, rows }: BlockRows, name: string): Iterable<number> {
  let [from, to] = [0, names.length];
  while (from < to) {
    const middle = (from + to) >>> 1;
    if (names[middle]! < name) from = middle + 1;
    else to = middle;
  }
  return names[from] === name ? rows[from]! : [];
}

const distinct = (rows: readonly IndexRow[]) =>
  rows.filter((row, at) => rows[at - 1]?.slot !== row.slot || rows[at - 1]?.index !== row.index);
