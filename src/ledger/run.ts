import { type FileHandle, open, rename, rm } from 'node:fs/promises';
import { crc32 } from 'node:zlib';
import { CodedError, codeOf } from '../lib/coded-error.ts';
import type { LedgerPlace } from '../ports/ledger.ts';
import { ByteSink, Source } from './bytes.ts';
import type { OpenFiles } from './files.ts';
import { type BlockRows, nameBytes, VOTE_ROWS } from './rows.ts';
import { lowerBound, readAt } from './segment.ts';

/**
 * A run: the rows of many blocks in one file, sorted by name and place; written once. Integers are little-endian.
 *
 * Chunks of about 8 KiB: CRC-32 of the rest, then entries: name · count of rows · for each: slots since the one before (the first one since
 * the lowest slot of the run) · index * 16 + flags, as LEB128. The rows of a name may continue in the next entry. Then the list of chunks
 * (first name, padded; first slot, first index, place), the list of blocks (slot, hash), and 64 bytes: magic, CRC-32 of the two lists and
 * what follows, counts, places, level.
 */
const MAGIC = 0x31524c50;
const CHUNK_BYTES = 8_192;
const MAX_ROWS = 1_024;
const NAME_BYTES = 33;
const CHUNK_ENTRY = NAME_BYTES + 8 + 4 + 8;
const FOOTER_BYTES = 64;

/** Blocks by slot, and for each the first 48 bits of its hash, which tell it from one of another fork. */
export interface BlockSet {
  /** Ascending. */
  readonly slots: readonly number[];
  readonly hashes: readonly number[];
}

export interface IndexRow extends LedgerPlace {
  readonly flags: number;
}

export interface IndexRun extends BlockSet {
  readonly path: string;
  readonly level: number;
  readonly bytes: number;
  readonly rowCount: number;
  /** `CHUNK_ENTRY` bytes for each chunk. */
  readonly chunks: Buffer;
}

/** A name and its rows, in the order of a run. */
export interface RunEntry {
  readonly name: string;
  readonly rows: readonly IndexRow[];
}

/** Writes a run from entries in order. It has its name once it is whole. Errors: those of the file system. */
export async function writeRun(
  path: string,
  level: number,
  blocks: BlockSet,
  entries: AsyncIterable<readonly RunEntry[]>,
): Promise<IndexRun> {
  const temporary = `${path}.tmp`;
  const file = await open(temporary, 'w', 0o600);
  try {
    const base = blocks.slots[0] ?? 0;
    const chunks = new ByteSink();
    let [at, rowCount] = [0, 0];
    let chunk = new ByteSink();
    let pending: Buffer[] = [];
    let pendingBytes = 0;
    const flush = async () => {
      const bytes = Buffer.concat(pending);
      for (let done = 0; done < bytes.length; )
        done += (await file.write(bytes, done, bytes.length - done, at - bytes.length + done)).bytesWritten;
      pending = [];
      pendingBytes = 0;
    };
    const endChunk = () => {
      if (chunk.length === 0) return;
      const bytes = Buffer.alloc(4 + chunk.length);
      bytes.set(chunk.used, 4);
      bytes.writeUInt32LE(crc32(chunk.used), 0);
      pending.push(bytes);
      pendingBytes += bytes.length;
      at += bytes.length;
      chunk = new ByteSink();
    };
    for await (const batch of entries) {
      for (const { name, rows } of batch)
        for (let from = 0; from < rows.length; from += MAX_ROWS) {
          const some = rows.slice(from, from + MAX_ROWS);
          if (chunk.length === 0) chunks.put(chunkEntry(name, some[0]!, at));
          chunk.latin1(name);
          chunk.number(some.length);
          let slot = base;
          for (const row of some) {
            chunk.number(row.slot - slot);
            chunk.number(row.index * 16 + row.flags);
            slot = row.slot;
          }
          rowCount += some.length;
          if (chunk.length >= CHUNK_BYTES) endChunk();
        }
      if (pendingBytes >= FLUSH_BYTES) await flush();
    }
    endChunk();
    await flush();
    const list = Buffer.alloc(blocks.slots.length * 16);
    for (const [index, slot] of blocks.slots.entries()) {
      list.writeDoubleLE(slot, index * 16);
      list.writeDoubleLE(blocks.hashes[index]!, index * 16 + 8);
    }
    const footer = Buffer.alloc(FOOTER_BYTES);
    footer.writeUInt32LE(MAGIC, 0);
    for (const [index, number] of [at, chunks.length, list.length, rowCount, level].entries())
      footer.writeDoubleLE(number, 8 + index * 8);
    const lists = Buffer.concat([chunks.used, list]);
    footer.writeUInt32LE(crc32(footer.subarray(8), crc32(lists)), 4);
    const end = Buffer.concat([lists, footer]);
    for (let done = 0; done < end.length; )
      done += (await file.write(end, done, end.length - done, at + done)).bytesWritten;
    await file.sync();
    await file.close();
    await rename(temporary, path);
    return { path, level, rowCount, bytes: at + end.length, chunks: Buffer.from(chunks.used), ...blocks };
  } catch (error) {
    await file.close().catch(() => undefined);
    await rm(temporary, { force: true }).catch(() => undefined);
    throw error;
  }
}

const FLUSH_BYTES = 262_144;

function chunkEntry(name: string, { slot, index }: LedgerPlace, place: number): Buffer {
  const entry = Buffer.alloc(CHUNK_ENTRY);
  entry.write(name, 0, 'latin1');
  entry.writeDoubleLE(slot, NAME_BYTES);
  entry.writeUInt32LE(index, NAME_BYTES + 8);
  entry.writeDoubleLE(place, NAME_BYTES + 12);
  return entry;
}

/** Null when it is damaged. Errors: those of the file system. */
export async function openRun(path: string): Promise<IndexRun | null> {
  const file = await open(path, 'r');
  try {
    const { size } = await file.stat();
    const footer = await readAt(file, Math.max(0, size - FOOTER_BYTES), FOOTER_BYTES);
    if (footer.length < FOOTER_BYTES || footer.readUInt32LE(0) !== MAGIC) return null;
    const [at, chunkBytes, blockBytes, rowCount, level] = [0, 1, 2, 3, 4].map((index) =>
      footer.readDoubleLE(8 + index * 8),
    ) as [number, number, number, number, number];
    if (at + chunkBytes + blockBytes + FOOTER_BYTES !== size) return null;
    const lists = await readAt(file, at, chunkBytes + blockBytes);
    if (crc32(footer.subarray(8), crc32(lists)) !== footer.readUInt32LE(4)) return null;
    const [slots, hashes]: [number[], number[]] = [[], []];
    for (let place = chunkBytes; place < lists.length; place += 16) {
      slots.push(lists.readDoubleLE(place));
      hashes.push(lists.readDoubleLE(place + 8));
    }
    return { path, level, rowCount, bytes: size, chunks: lists.subarray(0, chunkBytes), slots, hashes };
  } finally {
    await file.close();
  }
}

/** Whether the block of this slot, by its hash, is in the set. */
export function hasBlock({ slots, hashes }: BlockSet, slot: number, hash: number): boolean {
  const at = lowerBound(slots, slot);
  return slots[at] === slot && hashes[at] === hash;
}

export interface RowQuery {
  readonly name: string;
  readonly order: 'newest' | 'oldest';
  /** Both exclusive. */
  readonly above: LedgerPlace;
  readonly below: LedgerPlace;
  readonly limit: number;
  /** Rows that do not count are passed over. */
  readonly counts: (row: IndexRow) => boolean;
}

export const isBefore = (a: LedgerPlace, b: LedgerPlace) => a.slot < b.slot || (a.slot === b.slot && a.index < b.index);

/** The first rows of a name in the order of the query. Errors: LEDGER_DAMAGED, those of the file system. */
export function readRun(run: IndexRun, query: RowQuery, files: OpenFiles): Promise<IndexRow[]> {
  return files.use(run.path, (file) => readRows(run, query, file));
}

async function readRows(run: IndexRun, query: RowQuery, file: FileHandle): Promise<IndexRow[]> {
  const count = run.chunks.length / CHUNK_ENTRY;
  const key = Buffer.alloc(NAME_BYTES);
  key.write(query.name, 0, 'latin1');
  const { order, above, below, limit } = query;
  const isNewest = order === 'newest';
  // The chunk in which the rows of the query begin: the last one that does not begin behind them.
  const start = isNewest ? below : above;
  let [from, to] = [0, count];
  while (from < to) {
    const middle = (from + to) >>> 1;
    if (compareChunk(run.chunks, middle, key, start) <= 0) from = middle + 1;
    else to = middle;
  }
  const found: IndexRow[] = [];
  for (let chunk = Math.max(0, from - 1); chunk >= 0 && chunk < count; chunk += isNewest ? -1 : 1) {
    // A chunk that begins behind the range ends the walk upwards.
    if (!isNewest && compareChunk(run.chunks, chunk, key, below) >= 0) break;
    const all = await rowsInChunk(run, file, chunk, query.name);
    for (const row of isNewest ? all.reverse() : all) {
      if (!isBefore(above, row) || !isBefore(row, below) || !query.counts(row)) continue;
      found.push(row);
      if (found.length >= limit) return found;
    }
    // Everything before a chunk that begins below the name, or below the range, is below too.
    if (isNewest && (compareName(run.chunks, chunk, key) < 0 || compareChunk(run.chunks, chunk, key, above) <= 0))
      break;
  }
  return found;
}

const compareName = (chunks: Buffer, chunk: number, key: Buffer) =>
  chunks.compare(key, 0, NAME_BYTES, chunk * CHUNK_ENTRY, chunk * CHUNK_ENTRY + NAME_BYTES);

function compareChunk(chunks: Buffer, chunk: number, key: Buffer, { slot, index }: LedgerPlace): number {
  const at = chunk * CHUNK_ENTRY + NAME_BYTES;
  return compareName(chunks, chunk, key) || chunks.readDoubleLE(at) - slot || chunks.readUInt32LE(at + 8) - index;
}

/** The rows of a name in a chunk: other entries, which are nearly all of them, are passed over. */
async function rowsInChunk(run: IndexRun, file: FileHandle, chunk: number, name: string): Promise<IndexRow[]> {
  const bytes = await readChunk(run, file, chunk);
  const key = Buffer.from(name, 'latin1');
  // Most runs do not have the name.
  if (!bytes.includes(key)) return [];
  const source = new Source(bytes);
  const found: IndexRow[] = [];
  while (!source.isAtEnd) {
    const { at } = source;
    const length = nameBytes(String.fromCharCode(bytes[at]!));
    source.take(length);
    const count = source.room(source.number());
    const isWanted = length === key.length && bytes.compare(key, 0, length, at, at + length) === 0;
    if (isWanted) eachRow(run, source, count, (row) => found.push(row));
    else for (let left = count * 2; left > 0; left--) source.pass();
  }
  return found;
}

async function entriesInChunk(run: IndexRun, file: FileHandle, chunk: number): Promise<RunEntry[]> {
  const source = new Source(await readChunk(run, file, chunk));
  const entries: RunEntry[] = [];
  while (!source.isAtEnd) {
    const kind = String.fromCharCode(source.bytes[source.at]!);
    const name = source.take(nameBytes(kind)).toString('latin1');
    const rows: IndexRow[] = [];
    eachRow(run, source, source.room(source.number()), (row) => rows.push(row));
    entries.push({ name, rows });
  }
  return entries;
}

function eachRow(run: IndexRun, source: Source, count: number, work: (row: IndexRow) => void): void {
  let slot = run.slots[0] ?? 0;
  for (let left = count; left > 0; left--) {
    slot += source.number();
    const row = source.number();
    work({ slot, index: Math.floor(row / 16), flags: row % 16 });
  }
}

/** The entries of a chunk as they were written. Errors: LEDGER_DAMAGED, those of the file system. */
async function readChunk(run: IndexRun, file: FileHandle, chunk: number): Promise<Buffer> {
  const at = run.chunks.readDoubleLE(chunk * CHUNK_ENTRY + NAME_BYTES + 12);
  const isLast = (chunk + 1) * CHUNK_ENTRY >= run.chunks.length;
  const end = isLast
    ? run.bytes - FOOTER_BYTES - run.chunks.length - run.slots.length * 16
    : run.chunks.readDoubleLE((chunk + 1) * CHUNK_ENTRY + NAME_BYTES + 12);
  const bytes = await readAt(file, at, end - at);
  if (bytes.length !== end - at || crc32(bytes.subarray(4)) !== bytes.readUInt32LE(0))
    throw new CodedError('LEDGER_DAMAGED', `a part of the index is damaged: ${run.path}`, {
      facts: { path: run.path },
    });
  return bytes.subarray(4);
}

/** All entries of a run in order. Errors: as `readRun`. */
async function* entriesOf(run: IndexRun): AsyncGenerator<RunEntry> {
  const file = await open(run.path, 'r');
  try {
    for (let chunk = 0; chunk * CHUNK_ENTRY < run.chunks.length; chunk++) yield* await entriesInChunk(run, file, chunk);
  } finally {
    await file.close();
  }
}

/** Whether all of a run can be read. Errors: those of the file system. */
export async function isSoundRun(path: string): Promise<boolean> {
  const run = await openRun(path);
  if (run === null) return false;
  try {
    for await (const _ of entriesOf(run));
    return true;
  } catch (error) {
    if (codeOf(error) === 'LEDGER_DAMAGED') return false;
    throw error;
  }
}

/** The entries of several runs as one. Errors: as `readRun`. */
export async function* mergedEntries(runs: readonly IndexRun[]): AsyncGenerator<RunEntry[]> {
  const sources = runs.map((run) => entriesOf(run));
  let batch: RunEntry[] = [];
  try {
    const heads: (RunEntry | undefined)[] = [];
    for (const source of sources) heads.push((await source.next()).value as RunEntry | undefined);
    for (;;) {
      let name: string | undefined;
      for (const head of heads) if (head !== undefined && (name === undefined || head.name < name)) name = head.name;
      if (name === undefined) break;
      let rows: IndexRow[] = [];
      for (const [at, source] of sources.entries())
        while (heads[at]?.name === name) {
          rows = rows.concat(heads[at]!.rows);
          heads[at] = (await source.next()).value as RunEntry | undefined;
        }
      batch.push({ name, rows: distinct(name, rows) });
      if (batch.length < BATCH) continue;
      yield batch;
      batch = [];
    }
    yield batch;
  } finally {
    for (const source of sources) await source.return(undefined);
  }
}

const BATCH = 256;

/** The blocks of several sets; a slot has the hash of the last one. */
export function joinBlocks(sets: readonly BlockSet[]): BlockSet {
  const hashes = new Map<number, number>();
  for (const set of sets) for (const [at, slot] of set.slots.entries()) hashes.set(slot, set.hashes[at]!);
  const slots = [...hashes.keys()].sort((a, b) => a - b);
  return { slots, hashes: slots.map((slot) => hashes.get(slot)!) };
}

/** In order, each place once. Of votes one row is enough. */
function distinct(name: string, rows: IndexRow[]): IndexRow[] {
  const sorted = rows.sort((a, b) => a.slot - b.slot || a.index - b.index);
  if (name[0] === VOTE_ROWS) return sorted.slice(0, 1);
  return sorted.filter((row, at) => {
    const before = sorted[at - 1];
    return before === undefined || before.slot !== row.slot || before.index !== row.index;
  });
}

/** The rows of blocks in memory as entries of a run, a part of the names at a time. */
export async function* entriesOfBlocks(
  blocks: readonly (readonly [slot: number, rows: BlockRows])[],
  rest: () => Promise<void>,
): AsyncGenerator<RunEntry[]> {
  const places = blocks.map(() => 0);
  // Names begin with their kind, then come bytes that are spread evenly.
  for (let kind = 0; kind < 4; kind++)
    for (let byte = 16; byte <= 256; byte += 16) {
      const end = byte === 256 ? String.fromCharCode(kind + 1) : String.fromCharCode(kind, byte);
      const found = new Map<string, IndexRow[]>();
      for (const [at, [slot, { names, rows }]] of blocks.entries())
        for (; names[places[at]!] !== undefined && names[places[at]!]! < end; places[at]! += 1) {
          const name = names[places[at]!]!;
          const list = found.get(name) ?? [];
          for (const row of rows[places[at]!]!) list.push({ slot, index: Math.floor(row / 16), flags: row % 16 });
          found.set(name, list);
        }
      const entries = [...found].sort(([a], [b]) => (a < b ? -1 : 1));
      yield entries.map(([name, rows]) => ({ name, rows: distinct(name, rows) }));
      await rest();
    }
}
